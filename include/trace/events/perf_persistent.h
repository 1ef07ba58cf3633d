/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM perf_persistent

#if !defined(_TRACE_PERF_PERSISTENT_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_PERF_PERSISTENT_H

#include <linux/tracepoint.h>

struct perf_persistent_instance;

/*
 * One instance: it is reopened by @id and @instance, and measures @cpu and @pid,
 * -1 for none.
 */
DECLARE_EVENT_CLASS(persistent_instance,

	TP_PROTO(const struct perf_persistent_instance *inst),

	TP_ARGS(inst),

	TP_STRUCT__entry(
		__field(u32,	id)
		__field(u32,	instance)
		__field(u32,	member)
		__field(int,	cpu)
		__field(pid_t,	pid)
	),

	TP_fast_assign(
		__entry->id		= inst->session->id;
		__entry->instance	= inst->nr;
		__entry->member		= inst->key.member;
		__entry->cpu		= inst->key.cpu;
		__entry->pid		= inst->pid ? pid_nr(inst->pid) : -1;
	),

	TP_printk("id=%u instance=%u member=%u cpu=%d pid=%d", __entry->id,
		  __entry->instance, __entry->member, __entry->cpu, __entry->pid)
);

#define PERSISTENT_INSTANCE_EVENT(name)			\
	DEFINE_EVENT(persistent_instance, name,		\
		TP_PROTO(const struct perf_persistent_instance *inst), TP_ARGS(inst))

PERSISTENT_INSTANCE_EVENT(persistent_detach);
PERSISTENT_INSTANCE_EVENT(persistent_attach);
/* "offline" comes before the event stops counting, "online" after it counts again. */
PERSISTENT_INSTANCE_EVENT(persistent_offline);
PERSISTENT_INSTANCE_EVENT(persistent_online);

/*
 * A session, or one of its members; @member is 0 or the number + 1, and the record has the number,
 * or -1. @flags is perf_persistent_set::flags of the change, or 0.
 */
DECLARE_EVENT_CLASS(persistent_session,

	TP_PROTO(u32 id, u32 member, u32 flags),

	TP_ARGS(id, member, flags),

	TP_STRUCT__entry(
		__field(u32,	id)
		__field(int,	member)
		__field(u32,	flags)
	),

	TP_fast_assign(
		__entry->id	= id;
		__entry->member	= (int)member - 1;
		__entry->flags	= flags;
	),

	TP_printk("id=%u member=%d flags=%#x", __entry->id, __entry->member, __entry->flags)
);

#define PERSISTENT_SESSION_EVENT(name)			\
	DEFINE_EVENT(persistent_session, name,		\
		TP_PROTO(u32 id, u32 member, u32 flags), TP_ARGS(id, member, flags))

PERSISTENT_SESSION_EVENT(persistent_enable);
PERSISTENT_SESSION_EVENT(persistent_disable);
/* Reported after each change by PERF_EVENT_IOC_SET_PERSISTENT */
PERSISTENT_SESSION_EVENT(persistent_set);
/* The first file holds it; the last one releases it. */
PERSISTENT_SESSION_EVENT(persistent_hold);
PERSISTENT_SESSION_EVENT(persistent_release);
/* The time to live has run out, for all members. */
PERSISTENT_SESSION_EVENT(persistent_expire);

TRACE_EVENT(persistent_mark,

	TP_PROTO(u32 id, const char *text),

	TP_ARGS(id, text),

	TP_STRUCT__entry(
		__field(u32,	id)
		__string(text,	text)
	),

	TP_fast_assign(
		__entry->id	= id;
		__assign_str(text);
	),

	TP_printk("id=%u %s", __entry->id, __get_str(text))
);

#endif /* _TRACE_PERF_PERSISTENT_H */

#include <trace/define_trace.h>
