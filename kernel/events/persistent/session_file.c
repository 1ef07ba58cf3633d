// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: files of a whole session, for QUERY and SET.
 *
 * They keep no event: an event that leaves the session can end while they are open.
 */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "../internal.h"
#include "persistent.h"

static int perf_persistent_session_release(struct inode *inode, struct file *file)
{
	perf_persistent_release(file->private_data);
	kfree(file->private_data);

	return 0;
}

static long perf_persistent_session_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	long ret = perf_persistent_ioctl(file->private_data, NULL, cmd, arg);

	return ret == -ENOIOCTLCMD ? -ENOTTY : ret;
}

static void perf_persistent_session_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct perf_persistent_holder *holder = file->private_data;

	guard(mutex)(&perf_persistent_mutex);

	if (perf_persistent_session_lives(holder->session))
		seq_printf(m, "persistent-id:\t%u\n", holder->session->id);
}

static const struct file_operations perf_persistent_session_fops = {
	.release		= perf_persistent_session_release,
	.unlocked_ioctl		= perf_persistent_session_ioctl,
	.compat_ioctl		= compat_ptr_ioctl,
	.show_fdinfo		= perf_persistent_session_show_fdinfo,
};

/* Create a file with its own reference to the session; -ENOMEM or -ENFILE on errors. */
struct file *perf_persistent_session_open(struct perf_persistent_session *session, int f_flags)
{
	struct perf_persistent_holder *holder = kzalloc_obj(*holder, GFP_KERNEL_ACCOUNT);
	struct file *file;

	if (!holder)
		return ERR_PTR(-ENOMEM);

	file = anon_inode_getfile("[perf_event]", &perf_persistent_session_fops, holder, f_flags);
	if (IS_ERR(file)) {
		kfree(holder);
		return file;
	}

	kobject_get(&session->kobj);
	holder->session = session;

	return file;
}
