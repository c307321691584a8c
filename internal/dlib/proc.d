/*
 * Processes and threads as the D guide describes them, read from the kernel's
 * task_struct. Members that differ between kernels are given several times:
 * the first that the running kernel has counts.
 */

typedef struct timestruc {
	long tv_sec;
	long tv_nsec;
} timestruc_t;

translator timestruc_t < uint64_t NS > {
	tv_sec = NS / 1000000000;
	tv_nsec = NS % 1000000000;
};

typedef struct lwpsinfo {
	int pr_flag;
	id_t pr_lwpid;
	uintptr_t pr_addr;
	uintptr_t pr_wchan;
	char pr_stype;
	char pr_state;
	char pr_sname;
	char pr_nice;
	short pr_syscall;
	char pr_oldpri;
	char pr_cpu;
	int pr_pri;
	unsigned short pr_pctcpu;
	timestruc_t pr_start;
	timestruc_t pr_time;
	char pr_clname[8];
	char pr_name[16];
	int pr_onpro;
	int pr_bindpro;
	int pr_bindpset;
	int pr_lgrp;
} lwpsinfo_t;

inline char SSLEEP = 1;
inline char SRUN = 2;
inline char SZOMB = 3;
inline char SSTOP = 4;
inline char SIDL = 5;
inline char SONPROC = 6;
inline char SWAIT = 7;

inline int PR_STOPPED = 0x00000001;
inline int PR_ISTOP = 0x00000002;
inline int PR_DSTOP = 0x00000004;
inline int PR_STEP = 0x00000008;
inline int PR_ASLEEP = 0x00000010;
inline int PR_PCINVAL = 0x00000020;
inline int PR_ASLWP = 0x00000040;
inline int PR_AGENT = 0x00000080;
inline int PR_DETACH = 0x00000100;
inline int PR_DAEMON = 0x00000200;
inline int PR_IDLE = 0x00000400;
inline int PR_ISSYS = 0x00001000;
inline int PR_VFORKP = 0x00002000;
inline int PR_ORPHAN = 0x00004000;
inline int PR_NOSIGCHLD = 0x00008000;
inline int PR_WAITPID = 0x00010000;
inline int PR_FORK = 0x00100000;
inline int PR_RLC = 0x00200000;
inline int PR_KLC = 0x00400000;
inline int PR_ASYNC = 0x00800000;
inline int PR_MSACCT = 0x01000000;
inline int PR_BPTADJ = 0x02000000;
inline int PR_PTRACE = 0x04000000;
inline int PR_MSFORK = 0x08000000;

inline char PR_MODEL_UNKNOWN = 0;
inline char PR_MODEL_ILP32 = 1;
inline char PR_MODEL_LP64 = 2;

/* Bits of exit_state and of the state word. */
translator lwpsinfo_t < struct task_struct *T > {
	pr_flag = T->flags & 0x00200000 ? 0x1000 /* PR_ISSYS */ : 0;
	pr_lwpid = T->pid;
	pr_addr = (uintptr_t)T;
	pr_wchan = 0;
	pr_stype = 0;
	pr_state = T->exit_state & 0x30 ? 3 : T->__state & 0x0c ? 4 : T->__state ? 1 : T->on_cpu ? 6 : 2;
	pr_state = T->exit_state & 0x30 ? 3 : T->state & 0x0c ? 4 : T->state ? 1 : T->on_cpu ? 6 : 2;
	pr_sname = T->exit_state & 0x30 ? 'Z' : T->__state & 0x0c ? 'T' : T->__state ? 'S' : T->on_cpu ? 'O' : 'R';
	pr_sname = T->exit_state & 0x30 ? 'Z' : T->state & 0x0c ? 'T' : T->state ? 'S' : T->on_cpu ? 'O' : 'R';
	pr_nice = T->static_prio - 120;
	pr_syscall = T == curthread ? uregs[15] : -1;
	pr_oldpri = T->normal_prio;
	pr_pri = T->prio;
	pr_pctcpu = 0;
	pr_start = xlate <timestruc_t> ((uint64_t)T->start_boottime);
	pr_start = xlate <timestruc_t> ((uint64_t)T->real_start_time);
	pr_time = xlate <timestruc_t> ((uint64_t)(T->utime + T->stime));
	pr_clname = T->policy == 0 ? "TS" : T->policy == 1 ? "FF" : T->policy == 2 ? "RR" :
	    T->policy == 3 ? "BATCH" : T->policy == 5 ? "IDLE" : T->policy == 6 ? "DL" : T->policy == 7 ? "EXT" : "SYS";
	pr_name = T->comm;
	pr_onpro = T->thread_info.cpu;
	pr_onpro = T->cpu;
	pr_onpro = T->wake_cpu;
	pr_bindpro = T->nr_cpus_allowed == 1 ? T->wake_cpu : -1;
	pr_bindpset = -1;
	pr_lgrp = 0;
};

typedef struct psinfo {
	int pr_flag;
	int pr_nlwp;
	pid_t pr_pid;
	pid_t pr_ppid;
	pid_t pr_pgid;
	pid_t pr_sid;
	uid_t pr_uid;
	uid_t pr_euid;
	gid_t pr_gid;
	gid_t pr_egid;
	uintptr_t pr_addr;
	size_t pr_size;
	size_t pr_rssize;
	int pr_ttydev;
	unsigned short pr_pctcpu;
	unsigned short pr_pctmem;
	timestruc_t pr_start;
	timestruc_t pr_time;
	timestruc_t pr_ctime;
	char pr_fname[16];
	char pr_psargs[80];
	int pr_wstat;
	int pr_argc;
	uintptr_t pr_argv;
	uintptr_t pr_envp;
	char pr_dmodel;
	int pr_taskid;
	int pr_projid;
	int pr_nzomb;
	int pr_poolid;
	int pr_zoneid;
	int pr_contract;
	lwpsinfo_t pr_lwp;
} psinfo_t;

translator psinfo_t < struct task_struct *T > {
	pr_flag = T->flags & 0x00200000 ? 0x1000 /* PR_ISSYS */ : 0;
	pr_nlwp = T->signal->nr_threads;
	pr_pid = T->tgid;
	pr_ppid = T->real_parent->tgid;
	pr_pgid = T->signal->pids[2]->numbers[0].nr;
	pr_sid = T->signal->pids[3]->numbers[0].nr;
	pr_uid = T->cred->uid.val;
	pr_euid = T->cred->euid.val;
	pr_gid = T->cred->gid.val;
	pr_egid = T->cred->egid.val;
	pr_addr = (uintptr_t)T;
	/* Kilobytes. */
	pr_size = T->mm != NULL ? T->mm->total_vm * 4 : 0;
	pr_rssize = T->mm != NULL ? (T->mm->rss_stat[0].count + T->mm->rss_stat[1].count + T->mm->rss_stat[3].count) * 4 : 0;
	pr_rssize = T->mm != NULL ? (T->mm->rss_stat.count[0].counter + T->mm->rss_stat.count[1].counter + T->mm->rss_stat.count[3].counter) * 4 : 0;
	pr_ttydev = T->signal->tty != NULL ?
	    (T->signal->tty->driver->major << 20) + T->signal->tty->driver->minor_start + T->signal->tty->index : -1;
	pr_start = xlate <timestruc_t> ((uint64_t)T->group_leader->start_boottime);
	pr_start = xlate <timestruc_t> ((uint64_t)T->group_leader->real_start_time);
	/* Of the threads that are gone and of this one. */
	pr_time = xlate <timestruc_t> ((uint64_t)(T->signal->utime + T->signal->stime + T->utime + T->stime));
	pr_ctime = xlate <timestruc_t> ((uint64_t)(T->signal->cutime + T->signal->cstime));
	pr_fname = T->comm;
	pr_psargs = T == curthread ? execargs : stringof(T->comm);
	pr_wstat = T->exit_code;
	pr_pctcpu = 0;
	pr_pctmem = 0;
	pr_nzomb = 0;
	pr_argc = 0;
	pr_argv = T->mm != NULL ? T->mm->arg_start : 0;
	pr_envp = T->mm != NULL ? T->mm->env_start : 0;
	pr_dmodel = T->thread_info.flags & (1 << 29) ? 1 : 2;
	pr_taskid = 0;
	pr_projid = 0;
	pr_poolid = 0;
	pr_zoneid = 0;
	pr_contract = 0;
	pr_lwp = xlate <lwpsinfo_t> (T);
};

inline psinfo_t *curpsinfo = xlate <psinfo_t *> (curthread);
#pragma D attributes Stable/Stable/Common curpsinfo

inline lwpsinfo_t *curlwpsinfo = xlate <lwpsinfo_t *> (curthread);
#pragma D attributes Stable/Stable/Common curlwpsinfo
