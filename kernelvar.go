package godtrace

import (
	"strings"

	"godtrace/internal/btf"
	"godtrace/internal/types"
)

// kernelVars are the declarations of kernel variables that scripts name with a
// back-quote. BTF carries the types of per-CPU variables only, so those of
// others come from the kernel's headers, where they have not changed since 6.1.
// A variable that is not listed has an unknown type: programs cast its address.
var kernelVars = map[string]string{
	"avenrun":                 "unsigned long []", // include/linux/sched/loadavg.h
	"cad_pid":                 "struct pid *",     // include/linux/sched/signal.h
	"high_memory":             "void *",           // include/linux/mm.h
	"init_mm":                 "struct mm_struct", // include/linux/sched/mm.h
	"init_net":                "struct net",       // include/net/net_namespace.h
	"init_pid_ns":             "struct pid_namespace",
	"init_task":               "struct task_struct",
	"init_user_ns":            "struct user_namespace",
	"init_uts_ns":             "struct uts_namespace",
	"iomem_resource":          "struct resource",
	"jiffies":                 "unsigned long", // include/linux/jiffies.h
	"jiffies_64":              "uint64_t",
	"linux_banner":            "char []", // include/linux/printk.h
	"linux_proc_banner":       "char []",
	"max_low_pfn":             "unsigned long", // include/linux/memblock.h
	"max_pfn":                 "unsigned long",
	"min_low_pfn":             "unsigned long",
	"modules":                 "struct list_head",
	"nr_cpu_ids":              "unsigned int", // include/linux/cpumask.h
	"nr_threads":              "int",          // include/linux/sched/stat.h
	"oops_in_progress":        "int",          // include/linux/printk.h
	"panic_on_oops":           "int",
	"physical_mask":           "unsigned long",
	"pid_max":                 "int",
	"root_task_group":         "struct task_group",
	"saved_command_line":      "char *", // include/linux/init.h
	"super_blocks":            "struct list_head",
	"sysctl_sched_base_slice": "unsigned int",
	"system_state":            "enum system_states",
	"total_forks":             "unsigned long",
	"totalram_pages":          "unsigned long",
	"tsc_khz":                 "unsigned int",
	"vm_swappiness":           "int", // include/linux/swap.h
}

// kernelVarType is the declared type of a kernel variable; nil if it is not
// listed or the kernel has no such struct.
func kernelVarType(set *btf.Set, name string) types.Type {
	decl, ok := kernelVars[name]
	if !ok {
		return nil
	}
	decl, array := strings.CutSuffix(decl, " []")
	decl, pointer := strings.CutSuffix(decl, " *")
	var t types.Type
	words := strings.Fields(decl)
	switch words[0] {
	case "void":
		t = types.TVoid
	case "struct", "enum":
		t, _ = set.LookupType(typeSpace(words[0]), words[1])
	case "uint64_t":
		t = types.TUint64
	default:
		if b, ok := types.FromSpecifiers(words...); ok {
			t = b
		}
	}
	if t == nil {
		return nil
	}
	if pointer {
		t = types.NewPointer(t)
	}
	if array {
		t = &types.Array{Elem: t, Flexible: true}
	}
	return t
}
