#include "lib.h"

// What the kernel's own structures tell. Offsets of members come with the
// state, 8 bytes each, in the order that routine.go lists them.
#define OFF(k) (((volatile u64 *)state)[k])

// fetch reads n bytes of kernel memory; 1 with the address noted if it cannot.
INLINE long fetch(struct work *w, void *to, u64 n, u64 addr)
{
	if (!probe_read(to, n, (void *)addr))
		return 0;
	w->fault = addr;
	return 1;
}

#define FETCH(to, n, addr)                                                     \
	do {                                                                   \
		if (fetch(w, (void *)&(to), n, addr))                          \
			return BADADDR;                                        \
	} while (0)

// A mutex's owner is a task's address with three flags in its low bits.
enum { MUTEX_OWNER };

ROUTINE(mutex_owner)
{
	FETCH(w->ret, 8, w->arg[0] + OFF(MUTEX_OWNER));
	volat(w->ret) &= ~7ULL;
	return 0;
}

ROUTINE(mutex_owned)
{
	FETCH(w->ret, 8, w->arg[0] + OFF(MUTEX_OWNER));
	volat(w->ret) = (volat(w->ret) & ~7ULL) == current_task();
	return 0;
}

// A queued rwlock's count: a byte for the writer that holds it, a bit for those
// that wait, the readers above.
enum { RW_CNTS };

INLINE u64 rwlock(struct work *w, char *state, u32 mask)
{
	volat(w->ret) = 0;
	FETCH(w->ret, 4, w->arg[0] + OFF(RW_CNTS));
	volat(w->ret) = (volat(w->ret) & mask) != 0;
	return 0;
}

ROUTINE(rw_iswriter) { return rwlock(w, state, 0x1ff); }
ROUTINE(rw_write_held) { return rwlock(w, state, 0xff); }
ROUTINE(rw_read_held) { return rwlock(w, state, ~0x1ffU); }

// progenyof: is the process arg[0] the current one or an ancestor of it?
enum { TASK_TGID, TASK_REAL_PARENT };
enum { TASK, TGID };

BODY(progeny_step)
{
	struct work *w = e->w;
	char *state = e->state;
	u64 task = volat(w->s[TASK]);
	volat(w->s[TGID]) = 0;
	if (probe_read(&w->s[TGID], 4, (void *)(task + OFF(TASK_TGID))))
		return 1;
	if (volat(w->s[TGID]) == (u32)w->arg[0]) {
		w->ret = 1;
		return 1;
	}
	if (probe_read(&w->s[TASK], 8, (void *)(task + OFF(TASK_REAL_PARENT))))
		return 1;
	return volat(w->s[TASK]) == task || i >= 1024;
}

ROUTINE(progenyof)
{
	w->ret = 0;
	volat(w->s[TASK]) = current_task();
	ENV(e);
	LOOP(progeny_step, &e);
	return 0;
}

// getf: the struct file of descriptor arg[0], 0 if it is not open.
enum { TASK_FILES, FILES_FDT, FDT_MAX, FDT_FD };

ROUTINE(getf)
{
	volatile u64 *v = w->s;
	u32 fd = w->arg[0];
	w->ret = 0;
	FETCH(w->s[0], 8, current_task() + OFF(TASK_FILES));
	if (v[0] == 0)
		return 0;
	FETCH(w->s[0], 8, v[0] + OFF(FILES_FDT));
	v[1] = 0;
	FETCH(w->s[1], 4, v[0] + OFF(FDT_MAX));
	if (fd >= v[1])
		return 0;
	FETCH(w->s[0], 8, v[0] + OFF(FDT_FD));
	FETCH(w->ret, 8, v[0] + 8ULL * fd);
	return 0;
}

// Paths: from the name up to the root, written from the end of a buffer of
// PATH bytes.
enum {
	PATH_MNT, PATH_DENTRY, DENTRY_PARENT, DENTRY_NAME, DENTRY_INODE, DENTRY_OP, DENTRY_SB, DENTRY_PPREV,
	OP_DNAME, SB_TYPE, TYPE_NAME, INODE_INO, MNT_ROOT, MOUNT_MNT, MOUNT_PARENT, MOUNT_MOUNTPOINT,
	PATH_TASK_FS, FS_ROOT, FS_PWD,
};

// State of the walk. QSTR is struct qstr: hash and length, address of the name.
enum { DENTRY, MNT, ROOT_DENTRY, ROOT_MNT, TOP, UP, AT, QSTR, NAME, TMP, NUMBER, ERROR };

#define PATH 4096
#define MAXNAME 255

// prefix writes a byte in front.
INLINE void prefix(struct work *w, u8 c)
{
	u64 at = volat(w->s[AT]) - 1;
	keep(at);
	if (at >= PATH)
		return;
	w->buf[at] = c;
	volat(w->s[AT]) = at;
}

#define PREFIX(text)                                                           \
	do {                                                                   \
		_Pragma("unroll") for (int k = sizeof(text) - 2; k >= 0; k--)  \
			prefix(w, text[k]);                                    \
	} while (0)

// name puts the dentry's name in front: 1 if there is no room or no name.
INLINE long name(struct work *w, char *state, u64 dentry)
{
	if (fetch(w, &w->s[QSTR], 16, dentry + OFF(DENTRY_NAME)))
		return 1;
	u64 n = volat(w->s[QSTR]) >> 32, at = volat(w->s[AT]);
	if (n > MAXNAME)
		n = MAXNAME;
	keep(n);
	at -= n;
	keep(at);
	if (n > MAXNAME || at >= PATH)
		return 1;
	if (n && fetch(w, w->buf + at, n, volat(w->s[NAME])))
		return 1;
	volat(w->s[AT]) = at;
	return 0;
}

BODY(path_step)
{
	struct work *w = e->w;
	char *state = e->state;
	u64 dentry = volat(w->s[DENTRY]), mnt = volat(w->s[MNT]);
	volat(w->s[ERROR]) = 1;
	if (i >= 2048)
		return 1;
	if (dentry == volat(w->s[ROOT_DENTRY]) && mnt == volat(w->s[ROOT_MNT])) {
		volat(w->s[ERROR]) = 0;
		return 1;
	}
	if (fetch(w, &w->s[UP], 8, dentry + OFF(DENTRY_PARENT)))
		return 1;
	if (dentry == volat(w->s[TOP]) || dentry == volat(w->s[UP])) {
		// The root of a mount; of a detached one, or of all.
		u64 mount = mnt - OFF(MOUNT_MNT);
		if (fetch(w, &w->s[TMP], 8, mount + OFF(MOUNT_PARENT)))
			return 1;
		u64 parent = volat(w->s[TMP]);
		if (dentry != volat(w->s[TOP]) || parent == mount) {
			volat(w->s[ERROR]) = 0;
			return 1;
		}
		mnt = parent + OFF(MOUNT_MNT);
		volat(w->s[MNT]) = mnt;
		return fetch(w, &w->s[DENTRY], 8, mount + OFF(MOUNT_MOUNTPOINT)) ||
		       fetch(w, &w->s[TOP], 8, mnt + OFF(MNT_ROOT));
	}
	if (name(w, state, dentry))
		return 1;
	prefix(w, '/');
	volat(w->s[DENTRY]) = volat(w->s[UP]);
	return 0;
}

BODY(path_digit)
{
	struct work *w = e->w;
	u64 v = volat(w->s[NUMBER]);
	prefix(w, '0' + v % 10);
	volat(w->s[NUMBER]) = v / 10;
	return v < 10;
}

// nameless writes the name of what has no place in the tree: "pipe:[4711]".
INLINE u64 nameless(struct work *w, char *dst, u64 dsize, u64 ssize, char *state)
{
	u64 dentry = volat(w->s[DENTRY]);
	FETCH(w->s[TMP], 8, dentry + OFF(DENTRY_SB));
	FETCH(w->s[TMP], 8, volat(w->s[TMP]) + OFF(SB_TYPE));
	FETCH(w->s[TMP], 8, volat(w->s[TMP]) + OFF(TYPE_NAME));
	FETCH(w->s[TMP], 4, volat(w->s[TMP]));
	u32 type = volat(w->s[TMP]);
	u32 pipe = type == ('p' | 'i' << 8 | 'p' << 16 | 'e' << 24);
	u32 sock = type == ('s' | 'o' << 8 | 'c' << 16 | 'k' << 24);
	if (pipe || sock) {
		FETCH(w->s[TMP], 8, dentry + OFF(DENTRY_INODE));
		FETCH(w->s[NUMBER], 8, volat(w->s[TMP]) + OFF(INODE_INO));
		prefix(w, ']');
		ENV(e);
		LOOP(path_digit, &e);
		prefix(w, '[');
		prefix(w, ':');
		if (pipe)
			PREFIX("pipe");
		else
			PREFIX("socket");
		return 0;
	}
	if (type == ('a' | 'n' << 8 | 'o' << 16 | 'n' << 24)) {
		if (name(w, state, dentry))
			return BADADDR;
		PREFIX("anon_inode:");
		return 0;
	}
	PREFIX(" (deleted)");
	if (name(w, state, dentry))
		return BADADDR;
	prefix(w, '/');
	return 0;
}

// walk writes the path of s[DENTRY], s[MNT].
INLINE u64 walk(struct work *w, char *dst, u64 dsize, u64 ssize, char *state)
{
	w->buf[PATH - 1] = 0;
	volat(w->s[AT]) = PATH - 1;
	u64 dentry = volat(w->s[DENTRY]);
	FETCH(w->s[TOP], 8, volat(w->s[MNT]) + OFF(MNT_ROOT));
	FETCH(w->s[UP], 8, dentry + OFF(DENTRY_PARENT));
	FETCH(w->s[TMP], 8, dentry + OFF(DENTRY_OP));
	if (volat(w->s[TMP]))
		FETCH(w->s[TMP], 8, volat(w->s[TMP]) + OFF(OP_DNAME));
	if (volat(w->s[TMP])) {
		u64 fault = nameless(w, dst, dsize, ssize, state);
		if (fault)
			return fault;
	} else {
		FETCH(w->s[TMP], 8, dentry + OFF(DENTRY_PPREV));
		if (volat(w->s[TMP]) == 0 && dentry != volat(w->s[UP]))
			PREFIX(" (deleted)");
		u64 bare = volat(w->s[AT]);
		ENV(e);
		LOOP(path_step, &e);
		if (volat(w->s[ERROR]))
			return BADADDR;
		if (volat(w->s[AT]) == bare)
			prefix(w, '/');
	}
	u64 at = volat(w->s[AT]);
	keep(at);
	if (at >= PATH)
		return ILLOP;
	return give(w, dst, dsize, w->buf + at);
}

// d_path: arg[0] is the address of a struct path. As the kernel's d_path(), it
// is seen from the root of the process.
ROUTINE(d_path)
{
	FETCH(w->s[DENTRY], 8, w->arg[0] + OFF(PATH_DENTRY));
	FETCH(w->s[MNT], 8, w->arg[0] + OFF(PATH_MNT));
	volat(w->s[ROOT_DENTRY]) = 0;
	volat(w->s[ROOT_MNT]) = 0;
	FETCH(w->s[TMP], 8, current_task() + OFF(PATH_TASK_FS));
	u64 root = volat(w->s[TMP]);
	if (root) { // not in a thread that exits
		root += OFF(FS_ROOT);
		FETCH(w->s[ROOT_DENTRY], 8, root + OFF(PATH_DENTRY));
		FETCH(w->s[ROOT_MNT], 8, root + OFF(PATH_MNT));
	}
	return walk(w, dst, dsize, ssize, state);
}

// cwd is the process's working directory or, if arg[0] is 1, its root, as
// seen from the root of the mount namespace.
ROUTINE(cwd)
{
	FETCH(w->s[TMP], 8, current_task() + OFF(PATH_TASK_FS));
	u64 dir = volat(w->s[TMP]);
	if (dir == 0) {
		w->buf[0] = 0;
		return give(w, dst, dsize, w->buf);
	}
	dir += w->arg[0] ? OFF(FS_ROOT) : OFF(FS_PWD);
	FETCH(w->s[DENTRY], 8, dir + OFF(PATH_DENTRY));
	FETCH(w->s[MNT], 8, dir + OFF(PATH_MNT));
	volat(w->s[ROOT_DENTRY]) = 0;
	volat(w->s[ROOT_MNT]) = 0;
	return walk(w, dst, dsize, ssize, state);
}

// The path of a device.
enum { DEVICE_KOBJ, KOBJ_NAME, KOBJ_PARENT };

// The name of a part is read behind the path: PATH + MAXNAME + 1 bytes in all.
BODY(device_step)
{
	struct work *w = e->w;
	char *state = e->state;
	u64 kobj = volat(w->s[DENTRY]);
	volat(w->s[ERROR]) = 1;
	if (i >= 256)
		return 1;
	if (kobj == 0) {
		volat(w->s[ERROR]) = 0;
		return 1;
	}
	if (fetch(w, &w->s[NAME], 8, kobj + OFF(KOBJ_NAME)))
		return 1;
	s64 size = probe_read_str(w->buf + PATH, MAXNAME + 1, (void *)volat(w->s[NAME]));
	if (size <= 0) {
		w->fault = volat(w->s[NAME]);
		return 1;
	}
	u64 n = size - 1, at = volat(w->s[AT]);
	keep(n);
	at -= n;
	keep(at);
	if (n > MAXNAME || at >= PATH)
		return 1;
	if (n)
		probe_read(w->buf + at, n, w->buf + PATH);
	volat(w->s[AT]) = at;
	prefix(w, '/');
	return fetch(w, &w->s[DENTRY], 8, kobj + OFF(KOBJ_PARENT));
}

// ddi_pathname: arg[0] is the address of a struct device. As the kernel's
// kobject_get_path(): where the device is below /sys.
ROUTINE(ddi_pathname)
{
	w->fault = w->arg[0];
	if (w->arg[0] == 0)
		return BADADDR;
	w->buf[PATH - 1] = 0;
	volat(w->s[AT]) = PATH - 1;
	volat(w->s[DENTRY]) = w->arg[0] + OFF(DEVICE_KOBJ);
	ENV(e);
	LOOP(device_step, &e);
	if (volat(w->s[ERROR]))
		return BADADDR;
	u64 at = volat(w->s[AT]);
	keep(at);
	if (at >= PATH)
		return ILLOP;
	return give(w, dst, dsize, w->buf + at);
}
