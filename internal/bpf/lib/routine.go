package lib

import (
	"math"

	"godtrace/internal/dif"
)

// Routines are the entries, by subroutine.
var Routines = map[dif.Subr]*Routine{
	dif.SStrlen:    {Func: "dt_strlen", Strings: 1},
	dif.SStrcmp:    {Func: "dt_strcmp", Strings: 2},
	dif.SStrjoin:   {Func: "dt_strjoin"},
	dif.SStrchr:    {Func: "dt_strchr", Strings: 1},
	dif.SStrrchr:   {Func: "dt_strrchr", Strings: 1},
	dif.SStrstr:    {Func: "dt_strstr", Strings: 2},
	dif.SStrtok:    {Func: "dt_strtok", Strings: 1, State: true},
	dif.SSubstr:    {Func: "dt_substr", Strings: 1, First: 2, Defaults: []int64{math.MaxInt64}},
	dif.SIndex:     {Func: "dt_index", Strings: 2, First: 2, Defaults: []int64{0}},
	dif.SRindex:    {Func: "dt_rindex", Strings: 2, First: 2, Defaults: []int64{math.MaxInt32}},
	dif.SBasename:  {Func: "dt_basename", Strings: 1},
	dif.SDirname:   {Func: "dt_dirname", Strings: 1},
	dif.SCleanpath: {Func: "dt_cleanpath", Strings: 1},
	dif.SLltostr:   {Func: "dt_lltostr", First: 1, Defaults: []int64{10}},
	dif.SStrtoll:   {Func: "dt_strtoll", Strings: 1, First: 1, Defaults: []int64{10}},
	dif.SToLower:   {Func: "dt_tolower"},
	dif.SToUpper:   {Func: "dt_toupper"},
	dif.SInetNtoa:  {Func: "dt_inet_ntoa"},
	dif.SInetNtoa6: {Func: "dt_inet_ntoa6"},
	dif.SInetNtop:  {Func: "dt_inet_ntop"},
	dif.SLinkNtop:  {Func: "dt_link_ntop"},
	dif.SJSON:      {Func: "dt_json", Strings: 2},

	dif.SMutexOwner:  {Func: "dt_mutex_owner", Members: mutex},
	dif.SMutexOwned:  {Func: "dt_mutex_owned", Members: mutex},
	dif.SRWIsWriter:  {Func: "dt_rw_iswriter", Members: rwlock},
	dif.SRWReadHeld:  {Func: "dt_rw_read_held", Members: rwlock},
	dif.SRWWriteHeld: {Func: "dt_rw_write_held", Members: rwlock},
	dif.SProgenyof:   {Func: "dt_progenyof", Members: progeny},
	dif.SGetf:        {Func: "dt_getf", Members: files},
	dif.SDPath:       {Func: "dt_d_path", Bytes: pathMax, Members: paths},

	dif.SDdiPathname: {Func: "dt_ddi_pathname", Bytes: pathMax + nameMax, Members: devices},
}

// CWD gives the built-in variables cwd (argument 0) and root (argument 1).
var CWD = &Routine{Func: "dt_cwd", Bytes: pathMax, Members: paths}

// UStack walks the user stack of the current thread by unwind tables: dst gets
// the frames, the result is how many there are. Argument 0 is mm_struct's
// start_stack, by which a program that was executed since is told.
var UStack = &Routine{Func: "dt_ustack", Bytes: 22 * 8}

// Member is a member of a kernel structure, as btf names it.
type Member struct{ Tag, Path string }

const (
	pathMax = 4096 // PATH in kernel.c
	nameMax = 256  // MAXNAME + 1 there
)

// The members of each kind of routine, in the order of the enumerations in
// kernel.c.
var (
	mutex   = []Member{{"mutex", "owner"}}
	rwlock  = []Member{{"qrwlock", "cnts"}}
	devices = []Member{{"device", "kobj"}, {"kobject", "name"}, {"kobject", "parent"}}
	progeny = []Member{{"task_struct", "tgid"}, {"task_struct", "real_parent"}}
	files   = []Member{{"task_struct", "files"}, {"files_struct", "fdt"}, {"fdtable", "max_fds"}, {"fdtable", "fd"}}
	paths   = []Member{
		{"path", "mnt"}, {"path", "dentry"},
		{"dentry", "d_parent"}, {"dentry", "d_name"}, {"dentry", "d_inode"}, {"dentry", "d_op"}, {"dentry", "d_sb"}, {"dentry", "d_hash.pprev"},
		{"dentry_operations", "d_dname"}, {"super_block", "s_type"}, {"file_system_type", "name"}, {"inode", "i_ino"},
		{"vfsmount", "mnt_root"}, {"mount", "mnt"}, {"mount", "mnt_parent"}, {"mount", "mnt_mountpoint"},
		{"task_struct", "fs"}, {"fs_struct", "root"}, {"fs_struct", "pwd"},
	}
)
