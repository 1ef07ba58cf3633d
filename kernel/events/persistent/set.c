// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: control of a whole session.
 *
 * Everything that can fail is checked before the first instance is changed.
 */
#include <linux/cred.h>
#include <linux/ctype.h>
#include <linux/math64.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include <trace/events/perf_persistent.h>

#include "persistent.h"

/* SET waits until nothing that these exclude is still being reported. */
#define PERF_PERSISTENT_SET_STOPS	(PERF_PERSISTENT_SET_DISABLE | PERF_PERSISTENT_SET_HOLD | \
					 PERF_PERSISTENT_SET_FILTER | PERF_PERSISTENT_SET_PERIOD)

/* These need a live target. */
#define PERF_PERSISTENT_SET_REPORTED	(PERF_PERSISTENT_SET_ENABLE | PERF_PERSISTENT_SET_PERIOD | \
					 PERF_PERSISTENT_SET_FILTER)

/* The owner may do these without the rights to open the events. */
#define PERF_PERSISTENT_SET_OWN		(PERF_PERSISTENT_SET_DISABLE | PERF_PERSISTENT_SET_TTL | \
					 PERF_PERSISTENT_SET_MODE)

/* These send a uevent; the time to live does not, as it is renewed often. */
#define PERF_PERSISTENT_SET_ANNOUNCED	(PERF_PERSISTENT_SET_NAME | PERF_PERSISTENT_SET_UID | \
					 PERF_PERSISTENT_SET_GID | PERF_PERSISTENT_SET_MODE | \
					 PERF_PERSISTENT_SET_COMMITTED)

/**
 * struct perf_persistent_change - arguments of SET
 * @set:     as user space gave it, but for the time to live, see perf_persistent_check_ttl()
 * @holder:  holder of the file, or NULL if the file cannot hold
 * @uid:     new owner
 * @gid:     new group
 * @name:    new name, before it gets a prefix
 * @filter:  text of the filter, or NULL
 * @filters: filters of the instances that get one
 * @mark:    text of the mark
 */
struct perf_persistent_change {
	struct perf_persistent_set	set;
	struct perf_persistent_holder	*holder;
	kuid_t				uid;
	kgid_t				gid;
	char				name[PERF_PERSISTENT_NAME_MAX];
	char				*filter;
	struct list_head		filters;
	char				mark[PERF_PERSISTENT_MARK_MAX];
};

/* A mark becomes part of a line in a trace: allow no control characters, also of UTF-8. */
static bool is_mark(const char *text)
{
	for (const u8 *c = (const u8 *)text; *c; c++) {
		/* U+0080 to U+009F */
		if (iscntrl(*c) || (c[0] == 0xc2 && (c[1] & 0xe0) == 0x80))
			return false;
	}

	return *text;
}

static int copy_texts(struct perf_persistent_change *c)
{
	char *filter;
	int err;

	if (c->set.flags & PERF_PERSISTENT_SET_FILTER) {
		filter = strndup_user(u64_to_user_ptr(c->set.filter), PAGE_SIZE);
		if (IS_ERR(filter))
			return PTR_ERR(filter);
		c->filter = filter;
	}

	if (!(c->set.flags & PERF_PERSISTENT_SET_MARK))
		return 0;
	err = perf_persistent_copy_string(c->mark, sizeof(c->mark), c->set.mark);

	return err ?: is_mark(c->mark) ? 0 : -EINVAL;
}

static int copy_set(struct perf_persistent_change *c, unsigned int cmd, unsigned long arg)
{
	struct perf_persistent_set *set = &c->set;
	u32 both = PERF_PERSISTENT_SET_ENABLE | PERF_PERSISTENT_SET_DISABLE;
	int err;

	err = perf_persistent_copy_struct(set, sizeof(*set), PERF_PERSISTENT_SET_SIZE_VER0,
					  cmd, arg);
	if (err)
		return err;

	if ((set->flags & ~PERF_PERSISTENT_SET_ALL) || set->__reserved ||
	    (set->flags & both) == both ||
	    ((set->flags & PERF_PERSISTENT_SET_MODE) && (set->mode & ~0777)))
		return -EINVAL;

	c->uid = make_kuid(current_user_ns(), set->uid);
	if ((set->flags & PERF_PERSISTENT_SET_UID) && !uid_valid(c->uid))
		return -EINVAL;
	c->gid = make_kgid(current_user_ns(), set->gid);
	if ((set->flags & PERF_PERSISTENT_SET_GID) && !gid_valid(c->gid))
		return -EINVAL;

	if (set->flags & PERF_PERSISTENT_SET_TTL)
		err = perf_persistent_check_ttl(&set->ttl);
	if (!err && (set->flags & PERF_PERSISTENT_SET_NAME))
		err = perf_persistent_copy_name(c->name, set->name);

	return err ?: copy_texts(c);
}

static bool is_owner(const struct perf_persistent_session *session)
{
	return uid_eq(READ_ONCE(session->uid), current_euid());
}

/* As for files, the owner can choose another of his groups, but no other owner. */
static int may_set_mode(struct perf_persistent_session *session,
			const struct perf_persistent_change *c)
{
	u32 flags = c->set.flags;

	if (!(flags & (PERF_PERSISTENT_SET_UID | PERF_PERSISTENT_SET_GID |
		       PERF_PERSISTENT_SET_MODE)) || perfmon_capable())
		return 0;

	if (flags & PERF_PERSISTENT_SET_UID || !is_owner(session) ||
	    READ_ONCE(session->flags) & PERF_PERSISTENT_PRIVILEGED)
		return -EPERM;

	return !(flags & PERF_PERSISTENT_SET_GID) || in_egroup_p(c->gid) ? 0 : -EPERM;
}

/* The right that the change needs, or 0 */
static unsigned int set_right(const struct perf_persistent_session *session,
			      const struct perf_persistent_change *c)
{
	if (c->set.flags == PERF_PERSISTENT_SET_HOLD)
		return PERF_PERSISTENT_HOLD;

	/* As for files, the owner needs no right to change the mode. */
	if (c->set.flags == PERF_PERSISTENT_SET_MODE && is_owner(session))
		return 0;

	return PERF_PERSISTENT_CONTROL;
}

/*
 * An owner may end his session even if he may no longer access its targets, for
 * example because one of them executed a setuid program. He may not extend it then.
 */
static bool may_end(struct perf_persistent_session *session, const struct perf_persistent_set *set)
{
	if (set->flags & ~PERF_PERSISTENT_SET_OWN || !is_owner(session))
		return false;

	guard(mutex)(&perf_persistent_mutex);

	/* 0 is no limit. */
	return !(set->flags & PERF_PERSISTENT_SET_TTL) ||
	       (set->ttl && (!session->deadline || set->ttl <= session->deadline));
}

static int may_set(struct perf_persistent_session *session, const struct perf_persistent_change *c)
{
	unsigned int right = set_right(session, c);
	struct perf_event *event;
	int err;

	if (may_end(session, &c->set))
		err = perf_persistent_mode_allows(session, right) ? 0 : -EACCES;
	else
		err = perf_persistent_may_change(session, right);

	for_each_persistent_event(event, session, 0, !err)
		err = security_perf_event_write(event);

	return err ?: may_set_mode(session, c);
}

/* Software clocks convert a frequency to a period in ns when they are opened. */
static u64 event_period(struct perf_event *event, u64 value)
{
	if (!value || !event->persistent->attr.freq || event->attr.freq)
		return value;

	return div64_u64(NSEC_PER_SEC, value);
}

static int check_event_period(struct perf_event *event, u64 value)
{
	guard(perf_event_ctx)(event);

	/* The PMU of a revoked event is gone. */
	if (event->state <= PERF_EVENT_STATE_REVOKED)
		return 0;
	if (event->persistent->attr.freq && value > sysctl_perf_event_sample_rate)
		return -EINVAL;

	return perf_event_validate_period(event, event_period(event, value));
}

/*
 * Check the new period, and create the new filters. There must be an event that can change. As
 * in utrace_set_events(9), nothing can be set for dead targets, but disabling them is no error.
 */
static int check_instances(struct perf_persistent_session *session,
			   struct perf_persistent_change *c)
{
	bool period = c->set.flags & PERF_PERSISTENT_SET_PERIOD;
	bool filter = c->set.flags & PERF_PERSISTENT_SET_FILTER;
	bool alive = false, samples = false;
	struct perf_event *event;
	int err = 0;

	for_each_persistent_event(event, session, c->set.member, period || filter || !alive) {
		if (perf_persistent_state(event) < PERF_PERSISTENT_STATE_EXITED)
			alive = true;
		if (!err && period && is_sampling_event(event)) {
			samples = true;
			err = check_event_period(event, c->set.period);
		}
		if (!err && filter)
			err = perf_persistent_filter_add(&c->filters, event, c->filter);
	}
	if (!alive)
		return -EALREADY;
	if (err)
		return err;

	return (period && !samples) || (filter && list_empty(&c->filters)) ? -EINVAL : 0;
}

static int check_change(struct perf_persistent_session *session, struct perf_persistent_change *c)
{
	u32 member = c->set.member;
	int err = 0;

	scoped_guard(mutex, &perf_persistent_mutex) {
		if (!perf_persistent_session_lives(session))
			return -ESRCH;
		if (member && !perf_persistent_member_lookup(session, member - 1))
			return -ENOENT;
	}
	if (c->set.flags & PERF_PERSISTENT_SET_REPORTED)
		err = check_instances(session, c);

	/* The file that was detached cannot hold. */
	return err || c->holder || !(c->set.flags & PERF_PERSISTENT_SET_HOLD) ? err :
	       -EOPNOTSUPP;
}

static int set_session(struct perf_persistent_session *session, struct perf_persistent_change *c)
{
	struct perf_persistent_set *set = &c->set;

	guard(mutex)(&perf_persistent_mutex);

	/* The session has ended meanwhile, and its name is gone. */
	if (!perf_persistent_session_lives(session))
		return -ESRCH;

	if (set->flags & PERF_PERSISTENT_SET_COMMITTED)
		WRITE_ONCE(session->flags, session->flags & ~PERF_PERSISTENT_UNCOMMITTED);
	if (set->flags & PERF_PERSISTENT_SET_UID)
		WRITE_ONCE(session->uid, c->uid);
	if (set->flags & PERF_PERSISTENT_SET_GID)
		session->gid = c->gid;
	if (set->flags & PERF_PERSISTENT_SET_MODE)
		session->mode = set->mode;
	if (set->flags & PERF_PERSISTENT_SET_TTL)
		perf_persistent_session_arm(session, set->ttl);

	return 0;
}

/* Children have periods of their own. */
static void set_period(struct perf_event *event, u64 value)
{
	u64 period = event_period(event, value);
	struct perf_event *child;

	guard(mutex)(&event->child_mutex);

	perf_event_apply_period(event, period);
	list_for_each_entry(child, &event->child_list, child_list)
		perf_event_apply_period(child, period);
}

static void set_event(const struct perf_persistent_set *set, struct perf_event *event)
{
	guard(perf_event_ctx)(event);

	/* As the ioctls of an event do, skip events that are revoked or dead. */
	if (event->state <= PERF_EVENT_STATE_REVOKED)
		return;

	if ((set->flags & PERF_PERSISTENT_SET_PERIOD) && is_sampling_event(event))
		set_period(event, set->period);
	if (set->flags & PERF_PERSISTENT_SET_ENABLE)
		perf_event_for_each_child(event, _perf_event_enable);
	if (set->flags & PERF_PERSISTENT_SET_DISABLE)
		perf_event_for_each_child(event, _perf_event_disable);
}

static void set_instances(struct perf_persistent_session *session, struct perf_persistent_change *c)
{
	const struct perf_persistent_set *set = &c->set;
	struct perf_event *event;

	if (!(set->flags & (PERF_PERSISTENT_SET_ENABLE | PERF_PERSISTENT_SET_DISABLE |
			    PERF_PERSISTENT_SET_PERIOD | PERF_PERSISTENT_SET_FILTER)))
		return;

	perf_persistent_filters_swap(&c->filters);

	/* The leader of a group is enabled last, so that the group starts as a whole. */
	if (set->flags & PERF_PERSISTENT_SET_ENABLE) {
		for_each_persistent_event(event, session, set->member, true) {
			if (READ_ONCE(event->group_leader) != event)
				set_event(set, event);
		}
	}
	for_each_persistent_event(event, session, set->member, true)
		set_event(set, event);
}

/*
 * Restart the values of an event. Neither it nor its buffer changes: QUERY, and views that
 * are opened later, start at these positions, and current readers miss nothing. The caller holds
 * perf_persistent_session::control.
 */
static void clear_event(struct perf_event *event)
{
	struct perf_persistent_origin now = {
		.time = ktime_get_boottime_ns(),
		.lost = atomic64_read(&event->lost_samples),
	};
	struct perf_buffer *rb __free(ring_buffer_put) = ring_buffer_get(event);

	if (rb) {
		now.rb_id = rb->id;
		/* As wide as data_head is */
		now.head = (unsigned long)local_read(&rb->head);
	}
	now.count = perf_event_read_value(event, &now.enabled, &now.running);

	guard(mutex)(&perf_persistent_mutex);

	event->persistent->origin = now;
}

/* Wait for software events and tracepoints that are being reported. */
static void wait_for_reports(const struct perf_persistent_set *set)
{
	if (set->flags & PERF_PERSISTENT_SET_STOPS)
		synchronize_rcu();
}

static int change_locked(struct perf_persistent_session *session, struct perf_persistent_change *c)
{
	struct perf_event *event;
	int err;

	lockdep_assert_held(&session->control);

	err = check_change(session, c);
	/* The last step that can fail; the new name is visible from now on. */
	if (!err && (c->set.flags & PERF_PERSISTENT_SET_NAME))
		err = perf_persistent_sysfs_rename(session, c->name);
	if (err)
		return err;

	/* Report a mark or a disable before the change, enable and set after it. */
	if (c->set.flags & PERF_PERSISTENT_SET_MARK)
		trace_persistent_mark(session->id, c->mark);
	if (c->set.flags & PERF_PERSISTENT_SET_DISABLE)
		trace_persistent_disable(session->id, c->set.member, c->set.flags);
	if (c->set.flags & PERF_PERSISTENT_SET_HOLD)
		perf_persistent_hold(c->holder, c->set.member);
	set_instances(session, c);
	if (c->set.flags & PERF_PERSISTENT_SET_CLEAR) {
		/* After disabled events have stopped */
		wait_for_reports(&c->set);
		for_each_persistent_event(event, session, c->set.member, true)
			clear_event(event);
	}
	err = set_session(session, c);
	if (err)
		return err;

	if (c->set.flags & PERF_PERSISTENT_SET_ENABLE)
		trace_persistent_enable(session->id, c->set.member, c->set.flags);
	trace_persistent_set(session->id, c->set.member, c->set.flags);

	return 0;
}

/*
 * Get the session of @event, or for a file of a session, that of @holder. A view acts only on
 * the session that it was opened from.
 */
static struct perf_persistent_session *get_session(const struct perf_persistent_holder *holder,
						   struct perf_event *event)
{
	const struct perf_persistent_event *pe;
	struct perf_persistent_session *session;

	if (!event) {
		kobject_get(&holder->session->kobj);
		return holder->session;
	}

	session = perf_persistent_session_of(event);
	if (!session) {
		pe = READ_ONCE(event->persistent);
		return ERR_PTR(pe && READ_ONCE(pe->ended) ? -ESRCH : -EINVAL);
	}
	if (!holder || holder->session == session)
		return session;

	kobject_put(&session->kobj);

	return ERR_PTR(-ESRCH);
}

static int change_session(struct perf_persistent_change *c, struct perf_event *event)
{
	struct perf_persistent_session *session __free(perf_persistent_session) =
		get_session(c->holder, event);
	int err;

	if (IS_ERR(session))
		return PTR_ERR(session);

	err = perf_persistent_control_begin(session, set_right(session, c));
	if (err)
		return err;
	err = may_set(session, c) ?: change_locked(session, c);
	mutex_unlock(&session->control);

	/* Without the mutex, as others may wait for it, and some callers may only hold. */
	wait_for_reports(&c->set);
	if (!err && (c->set.flags & PERF_PERSISTENT_SET_ANNOUNCED) &&
	    refcount_inc_not_zero(&session->nr_unfinished)) {
		perf_persistent_sysfs_announce(session, KOBJ_CHANGE);
		perf_persistent_session_finish(session);
	}

	return err;
}

/* @event is the event of the file, or NULL for a file of the session of @holder. */
long perf_persistent_ioctl_set(struct perf_persistent_holder *holder, struct perf_event *event,
			       unsigned int cmd, unsigned long arg)
{
	struct perf_persistent_change *c __free(kfree) = kzalloc_obj(*c, GFP_KERNEL_ACCOUNT);
	int err;

	if (!c)
		return -ENOMEM;

	c->holder = holder;
	INIT_LIST_HEAD(&c->filters);
	err = copy_set(c, cmd, arg) ?: change_session(c, event);
	perf_persistent_filters_free(&c->filters);
	kfree(c->filter);

	return err;
}
