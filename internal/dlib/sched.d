/* The CPU a probe fires on. */

typedef int processorid_t;
typedef int psetid_t;
typedef int chipid_t;
typedef long lgrp_id_t;

typedef struct cpuinfo {
	processorid_t cpu_id;
	psetid_t cpu_pset;
	chipid_t cpu_chip;
	lgrp_id_t cpu_lgrp;
	string cpu_info;
} cpuinfo_t;

/* N is a CPU's number. Per-CPU variables lie at their address plus the CPU's offset. */
translator cpuinfo_t < processorid_t N > {
	cpu_id = N;
	cpu_pset = 0;
	cpu_chip = ((struct cpuinfo_x86 *)((uintptr_t)&`cpu_info + `__per_cpu_offset[N]))->topo.pkg_id;
	cpu_chip = ((struct cpuinfo_x86 *)((uintptr_t)&`cpu_info + `__per_cpu_offset[N]))->phys_proc_id;
	cpu_chip = 0;
	cpu_lgrp = *(int *)((uintptr_t)&`numa_node + `__per_cpu_offset[N]);
	cpu_lgrp = 0;
	cpu_info = stringof(((struct cpuinfo_x86 *)((uintptr_t)&`cpu_info + `__per_cpu_offset[N]))->x86_model_id);
	cpu_info = "";
};

inline cpuinfo_t *curcpu = xlate <cpuinfo_t *> ((processorid_t)cpu);
#pragma D attributes Stable/Stable/Common curcpu

inline psetid_t pset = curcpu->cpu_pset;
#pragma D attributes Stable/Stable/Common pset
inline chipid_t chip = curcpu->cpu_chip;
#pragma D attributes Stable/Stable/Common chip
inline lgrp_id_t lgrp = curcpu->cpu_lgrp;
#pragma D attributes Stable/Stable/Common lgrp
