/*
 * What Linux has beside what other systems have: names for parts of the task.
 */

/* The name of the thread group's leader: of the process, whatever its threads call themselves. */
inline string comm_leader = stringof(curthread->group_leader->comm);

/* The number of the network namespace, as in readlink(/proc/PID/ns/net). */
inline uint_t netns = curthread->nsproxy->net_ns->ns.inum;

/* The process's ID as it sees it itself, in its innermost namespace of process IDs. */
inline pid_t pidns_pid = curthread->group_leader->thread_pid->numbers[curthread->group_leader->thread_pid->level].nr;

/* The last part of the name of the cgroup (version 2) that the thread is in. */
inline string cgroupname = stringof(curthread->cgroups->dfl_cgrp->kn->name);
