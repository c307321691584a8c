package consume

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/dif"
	"godtrace/internal/format"
)

// packets is where the packets of pcap() go: capture files, one for each name
// given to freopen(), and tshark where the output is not turned to a file.
type packets struct {
	files  map[string]*capture
	shark  *shark
	tried  bool          // whether there is a tshark
	adjust time.Duration // from the time of records to that of the clock
}

// capture writes a capture file, in the format of pcap with times in
// nanoseconds. The file begins anew with the first packet.
type capture struct {
	w    *bufio.Writer
	c    io.Closer
	link uint32
}

// linkTypes are the numbers in files of protocols that have others in programs.
var linkTypes = map[uint32]uint32{12: 101} // raw IP

// newCapture writes the file's header: magic, version, two unused words, the
// longest packet, the kind of packets.
func newCapture(w io.WriteCloser, proto, longest uint32) (*capture, error) {
	c := &capture{bufio.NewWriter(w), w, proto}
	link, ok := linkTypes[proto]
	if !ok {
		link = proto
	}
	b := binary.LittleEndian.AppendUint32(nil, 0xa1b23c4d)
	b = binary.LittleEndian.AppendUint16(b, 2)
	b = binary.LittleEndian.AppendUint16(b, 4)
	for _, n := range []uint32{0, 0, longest, link} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	_, err := c.w.Write(b)
	return c, err
}

// packet writes the first bytes of a packet of length bytes.
func (c *capture) packet(at time.Time, b []byte, length uint32) error {
	var head []byte
	for _, n := range []uint32{uint32(at.Unix()), uint32(at.Nanosecond()), uint32(len(b)), length} {
		head = binary.LittleEndian.AppendUint32(head, n)
	}
	if _, err := c.w.Write(head); err != nil {
		return err
	}
	_, err := c.w.Write(b)
	return err
}

func (c *capture) close() error {
	err := c.w.Flush()
	if e := c.c.Close(); err == nil {
		err = e
	}
	return err
}

// packetOf is the packet among the values of pcap(): protocol, length, bytes
// taken, bytes.
func packetOf(vals []format.Value) []byte {
	return vals[3].Bytes[:min(vals[2].Int, uint64(len(vals[3].Bytes)))]
}

// pcap writes a packet to the capture file that freopen() named. Without one
// tshark tells what the packet is, and without tshark it is printed in
// hexadecimal.
func (c *Consumer) pcap(a *dif.Action, v *View, payload []byte) error {
	vals := c.values(a, payload, &v.Probe.Desc)
	proto, length, b := uint32(vals[0].Int), uint32(vals[1].Int), packetOf(vals)
	longest := uint32(a.Fields[3].Size)
	p := &c.packets
	if length == 0 {
		return nil
	}
	if p.adjust == 0 {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return err
		}
		p.adjust = time.Duration(time.Now().UnixNano() - now.Nano())
	}
	at := time.Unix(0, int64(v.Time)).Add(p.adjust)
	if c.out.file == nil {
		if c.Dissect && c.Sink == nil && !p.tried {
			p.tried = true
			p.shark = startShark(proto, longest)
		}
		if p.shark == nil || p.shark.in.link != proto {
			c.buf = format.DumpBytes(c.buf, b)
			return nil
		}
		c.buf = append(c.buf, p.shark.lines()...)
		if err := p.shark.in.packet(at, b, length); err != nil {
			return nil // it has ended; what it printed comes at the end
		}
		return nil
	}
	name := c.out.file.Name()
	f := p.files[name]
	if f == nil {
		w, err := os.Create(name)
		if err != nil {
			return fmt.Errorf("pcap: %w", err)
		}
		if f, err = newCapture(w, proto, longest); err != nil {
			return fmt.Errorf("pcap: %w", err)
		}
		if p.files == nil {
			p.files = map[string]*capture{}
		}
		p.files[name] = f
	}
	if f.link != proto {
		return fmt.Errorf("pcap: %s holds packets of protocol %d, not %d: a capture file has one protocol", name, f.link, proto)
	}
	if err := f.packet(at, b, length); err != nil {
		return fmt.Errorf("pcap: %w", err)
	}
	return nil
}

// flush hands everything captured to the operating system.
func (p *packets) flush() error {
	for _, f := range p.files {
		if err := f.w.Flush(); err != nil {
			return fmt.Errorf("pcap: %w", err)
		}
	}
	if p.shark != nil {
		_ = p.shark.in.w.Flush() // where tshark has ended nobody misses the packets
	}
	return nil
}

// endPackets closes the capture files and prints the last of tshark's lines.
func (c *Consumer) endPackets() error {
	p := &c.packets
	for _, f := range p.files {
		if err := f.close(); err != nil {
			return fmt.Errorf("pcap: %w", err)
		}
	}
	p.files = nil
	if p.shark == nil {
		return nil
	}
	c.buf = append(c.buf, p.shark.end()...)
	p.shark = nil
	return c.emit()
}

// shark is a running tshark.
type shark struct {
	cmd  *exec.Cmd
	in   *capture
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer // lines it printed
}

// unprivileged is who tshark runs as: it needs no privileges to read its input.
const unprivileged = 65534

// startShark starts tshark; nil where there is none. Packets come from outside,
// and it is large: it gets neither privileges nor the environment.
func startShark(proto, longest uint32) *shark {
	path, err := exec.LookPath("tshark")
	if err != nil {
		return nil
	}
	s := &shark{cmd: exec.Command(path, "-l", "-r", "-"), done: make(chan struct{})}
	s.cmd.Dir, s.cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for the tracer
	if os.Geteuid() == 0 {
		s.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil
	}
	if s.cmd.Start() != nil {
		return nil
	}
	go func() {
		defer close(s.done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			s.mu.Lock()
			fmt.Fprintf(&s.out, "pcap \t%s\n", lines.Bytes())
			s.mu.Unlock()
		}
	}()
	if s.in, err = newCapture(in, proto, longest); err != nil {
		s.end()
		return nil
	}
	return s
}

// lines are what it printed since the last call.
func (s *shark) lines() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := bytes.Clone(s.out.Bytes())
	s.out.Reset()
	return b
}

// end lets it read the rest, and gives its last lines.
func (s *shark) end() []byte {
	if s.in != nil {
		_ = s.in.close() // it may have ended already
	}
	<-s.done
	_ = s.cmd.Wait()
	return s.lines()
}
