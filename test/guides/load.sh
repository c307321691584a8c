# load.sh KIND: what the programs of the guides are run over.
d=${TMPDIR:-/tmp}/guides.$$
i=0
case $1 in
files) # 20 lines written, 20 read, a file opened that is not there
	while [ $i -lt 20 ]; do
		echo "line $i" >>$d
		read x <$d
		i=$((i + 1))
	done
	/bin/cat /nonexistent/file 2>/dev/null
	/bin/cat $d >/dev/null
	/bin/rm $d
	;;
write) # 30 writes of 7 bytes
	/bin/dd if=/dev/zero of=/dev/null bs=7 count=30 2>/dev/null
	;;
exec) # five programs
	while [ $i -lt 5 ]; do
		/bin/true
		i=$((i + 1))
	done
	;;
spin) # some tenths of a second on the CPU
	while [ $i -lt 150000 ]; do i=$((i + 1)); done
	;;
sleep) # three sleeps
	/bin/sleep 0.02
	/bin/sleep 0.02
	/bin/sleep 0.02
	;;
esac
