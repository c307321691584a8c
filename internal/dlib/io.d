/* Input and output: requests, devices, files. */

typedef struct bufinfo {
	int b_flags;
	size_t b_bcount;
	caddr_t b_addr;
	uint64_t b_lblkno;
	uint64_t b_blkno;
	size_t b_resid;
	size_t b_bufsize;
	caddr_t b_iodone;
	int b_error;
	dev_t b_edev;
} bufinfo_t;

inline int B_BUSY = 0x000001;
inline int B_DONE = 0x000002;
inline int B_ERROR = 0x000004;
inline int B_PAGEIO = 0x000010;
inline int B_PHYS = 0x000020;
inline int B_READ = 0x000040;
inline int B_WRITE = 0x000100;
inline int B_ASYNC = 0x000400;

/*
 * The operation is in the low 8 bits of bi_opf and cmd_flags: odd ones write.
 * REQ_SYNC is bit 11 from 6.1 on.
 */
translator bufinfo_t < struct bio *B > {
	b_flags = (B->bi_opf & 1 ? 0x100 : 0x40) | (B->bi_opf & (1 << 11) ? 0 : 0x400) | 0x10 | (B->bi_status ? 4 : 0);
	b_bcount = B->bi_iter.bi_size;
	b_addr = 0;
	b_lblkno = B->bi_iter.bi_sector;
	b_blkno = B->bi_iter.bi_sector;
	b_resid = 0;
	b_bufsize = B->bi_iter.bi_size;
	b_iodone = (caddr_t)B->bi_end_io;
	b_error = B->bi_status;
	b_edev = B->bi_bdev != NULL ? B->bi_bdev->bd_dev : 0;
	b_edev = B->bi_disk != NULL ? (B->bi_disk->major << 20) + B->bi_disk->first_minor + B->bi_partno : 0;
};

translator bufinfo_t < struct request *R > {
	b_flags = (R->cmd_flags & 1 ? 0x100 : 0x40) | (R->cmd_flags & (1 << 11) ? 0 : 0x400) | 0x10;
	b_bcount = R->__data_len;
	b_addr = 0;
	b_lblkno = R->__sector;
	b_blkno = R->__sector;
	b_resid = R->resid_len;
	b_resid = 0;
	b_bufsize = R->__data_len;
	b_iodone = (caddr_t)R->end_io;
	b_error = 0;
	b_edev = R->part != NULL ? R->part->bd_dev :
	    R->q->disk != NULL ? (R->q->disk->major << 20) + R->q->disk->first_minor : 0;
	b_edev = R->rq_disk != NULL ? (R->rq_disk->major << 20) + R->rq_disk->first_minor : 0;
};

translator bufinfo_t < struct buffer_head *B > {
	b_flags = 0x10;
	b_bcount = B->b_size;
	b_addr = (caddr_t)B->b_data;
	b_lblkno = B->b_blocknr;
	b_blkno = B->b_blocknr;
	b_resid = 0;
	b_bufsize = B->b_size;
	b_iodone = (caddr_t)B->b_end_io;
	b_error = 0;
	b_edev = B->b_bdev != NULL ? B->b_bdev->bd_dev : 0;
};

typedef struct devinfo {
	int dev_major;
	int dev_minor;
	int dev_instance;
	string dev_name;
	string dev_statname;
	string dev_pathname;
} devinfo_t;

translator devinfo_t < struct block_device *D > {
	dev_major = D != NULL ? D->bd_dev >> 20 : 0;
	dev_minor = D != NULL ? D->bd_dev & 0xfffff : 0;
	dev_instance = 0;
	dev_name = D != NULL ? stringof(D->bd_disk->disk_name) : "nfs";
	dev_statname = D == NULL ? "nfs" :
	    D->__bd_flags.counter & 0xff ? strjoin(D->bd_disk->disk_name, lltostr(D->__bd_flags.counter & 0xff)) : stringof(D->bd_disk->disk_name);
	dev_statname = D == NULL ? "nfs" :
	    D->bd_partno ? strjoin(D->bd_disk->disk_name, lltostr(D->bd_partno)) : stringof(D->bd_disk->disk_name);
	dev_pathname = D == NULL ? "<nfs>" : strjoin("/dev/",
	    D->__bd_flags.counter & 0xff ? strjoin(D->bd_disk->disk_name, lltostr(D->__bd_flags.counter & 0xff)) : stringof(D->bd_disk->disk_name));
	dev_pathname = D == NULL ? "<nfs>" : strjoin("/dev/",
	    D->bd_partno ? strjoin(D->bd_disk->disk_name, lltostr(D->bd_partno)) : stringof(D->bd_disk->disk_name));
};

translator devinfo_t < struct bio *B > {
	dev_major = (xlate <devinfo_t> (B->bi_bdev)).dev_major;
	dev_minor = (xlate <devinfo_t> (B->bi_bdev)).dev_minor;
	dev_instance = 0;
	dev_name = (xlate <devinfo_t> (B->bi_bdev)).dev_name;
	dev_statname = (xlate <devinfo_t> (B->bi_bdev)).dev_statname;
	dev_pathname = (xlate <devinfo_t> (B->bi_bdev)).dev_pathname;
};

translator devinfo_t < struct request *R > {
	dev_major = (xlate <devinfo_t> (R->part)).dev_major;
	dev_minor = (xlate <devinfo_t> (R->part)).dev_minor;
	dev_instance = 0;
	dev_name = (xlate <devinfo_t> (R->part)).dev_name;
	dev_statname = (xlate <devinfo_t> (R->part)).dev_statname;
	dev_pathname = (xlate <devinfo_t> (R->part)).dev_pathname;
};

translator devinfo_t < struct buffer_head *B > {
	dev_major = (xlate <devinfo_t> (B->b_bdev)).dev_major;
	dev_minor = (xlate <devinfo_t> (B->b_bdev)).dev_minor;
	dev_instance = 0;
	dev_name = (xlate <devinfo_t> (B->b_bdev)).dev_name;
	dev_statname = (xlate <devinfo_t> (B->b_bdev)).dev_statname;
	dev_pathname = (xlate <devinfo_t> (B->b_bdev)).dev_pathname;
};

typedef struct fileinfo {
	string fi_name;
	string fi_dirname;
	string fi_pathname;
	long fi_offset;
	string fi_fs;
	string fi_mount;
	int fi_oflags;
} fileinfo_t;

translator fileinfo_t < struct file *F > {
	fi_name = F == NULL ? "<none>" : F->f_path.dentry->d_name.name[0] == 0 ? "<unknown>" : stringof(F->f_path.dentry->d_name.name);
	fi_dirname = F == NULL ? "<none>" : dirname(d_path(&F->f_path));
	fi_pathname = F == NULL ? "<none>" : d_path(&F->f_path);
	fi_offset = F == NULL ? 0 : F->f_pos;
	fi_fs = F == NULL ? "<none>" : stringof(F->f_inode->i_sb->s_type->name);
	fi_mount = F == NULL ? "<none>" : "<unknown>";
	fi_oflags = F == NULL ? 0 : F->f_flags;
};

/* A request does not know the file it is for. */
translator fileinfo_t < struct bio *B > {
	fi_name = "<none>";
	fi_dirname = "<none>";
	fi_pathname = "<none>";
	fi_offset = 0;
	fi_fs = "<none>";
	fi_mount = "<none>";
	fi_oflags = 0;
};

translator fileinfo_t < struct request *R > {
	fi_name = "<none>";
	fi_dirname = "<none>";
	fi_pathname = "<none>";
	fi_offset = 0;
	fi_fs = "<none>";
	fi_mount = "<none>";
	fi_oflags = 0;
};

inline fileinfo_t fds[int fd] = xlate <fileinfo_t> (
    fd >= 0 && fd < curthread->files->fdt->max_fds ? curthread->files->fdt->fd[fd] : NULL);
#pragma D attributes Stable/Stable/Common fds

inline int O_ACCMODE = 00000003;
inline int O_RDONLY = 00000000;
inline int O_WRONLY = 00000001;
inline int O_RDWR = 00000002;
inline int O_CREAT = 00000100;
inline int O_EXCL = 00000200;
inline int O_NOCTTY = 00000400;
inline int O_TRUNC = 00001000;
inline int O_APPEND = 00002000;
inline int O_NONBLOCK = 00004000;
inline int O_NDELAY = 00004000;
inline int O_DSYNC = 00010000;
inline int O_ASYNC = 00020000;
inline int O_DIRECT = 00040000;
inline int O_LARGEFILE = 00100000;
inline int O_DIRECTORY = 00200000;
inline int O_NOFOLLOW = 00400000;
inline int O_NOATIME = 01000000;
inline int O_CLOEXEC = 02000000;
inline int O_SYNC = 04010000;
inline int O_RSYNC = 04010000;
inline int O_PATH = 010000000;
inline int O_TMPFILE = 020200000;
