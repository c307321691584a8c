package d_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godtrace/internal/testkernel"
)

// packet is one packet of a capture file.
type packet struct {
	at     time.Time
	length uint32
	bytes  []byte
}

// readCapture reads a capture file as pcap-savefile(5) describes it.
func readCapture(t *testing.T, b []byte) (link uint32, out []packet) {
	t.Helper()
	le := binary.LittleEndian
	if len(b) < 24 || le.Uint32(b) != 0xa1b23c4d || le.Uint16(b[4:]) != 2 || le.Uint16(b[6:]) != 4 {
		t.Fatalf("no capture file: % x", b)
	}
	link = le.Uint32(b[20:])
	for b = b[24:]; len(b) > 0; {
		n := le.Uint32(b[8:])
		out = append(out, packet{time.Unix(int64(le.Uint32(b)), int64(le.Uint32(b[4:]))), le.Uint32(b[12:]), b[16 : 16+n]})
		b = b[16+n:]
	}
	return link, out
}

// sendPackets sends datagrams over the loopback device to a socket of its own
// and says where.
func sendPackets(t *testing.T, payloads ...string) (port int) {
	t.Helper()
	in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := net.Dial("udp4", in.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, p := range payloads {
		if _, err := out.Write([]byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	return in.LocalAddr().(*net.UDPAddr).Port
}

// tracePackets runs a program that does action for each datagram sent here, and
// ends with the last.
func tracePackets(t *testing.T, env []string, action string, payloads ...string) (stdout string, port int) {
	t.Helper()
	cmd := testkernel.Godtrace(t)
	src := fmt.Sprintf(`
		BEGIN { printf("ready\n"); }
		rawtp:net::net_dev_queue /pid == %d/ { %s; if (++n == %d) exit(0); }`, os.Getpid(), action, len(payloads))
	c := exec.CommandContext(t.Context(), cmd, "-q", "-w", "-x", "pcapsize=64", "-x", "switchrate=50hz", "-n", src)
	c.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	b := make([]byte, 4096)
	for sent := false; ; {
		n, err := out.Read(b)
		all.Write(b[:n])
		if !sent && strings.Contains(all.String(), "ready\n") {
			sent = true
			port = sendPackets(t, payloads...)
		}
		if err != nil {
			break
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return strings.Trim(strings.TrimPrefix(all.String(), "ready\n"), "\n"), port
}

const ethernet, ipv4, udp = 14, 20, 8

// A capture file holds the packets as they were sent.
func TestPcapFile(t *testing.T) {
	testkernel.RequireRoot(t)
	file := filepath.Join(t.TempDir(), "out.pcap")
	if err := os.WriteFile(file, []byte("what was here before"), 0o666); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("abcdefgh", 100)
	payloads := []string{"hello", "", long}
	before := time.Now()
	stdout, port := tracePackets(t, nil, fmt.Sprintf(`freopen("%s"); pcap((struct sk_buff *)arg0, PCAP_ETHERNET); freopen(""); printf("x")`, file), payloads...)
	if stdout != "xxx" {
		t.Errorf("stdout %q", stdout)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	link, got := readCapture(t, b)
	if link != 1 || len(got) != len(payloads) {
		t.Fatalf("link %d, %d packets", link, len(got))
	}
	for i, p := range got {
		whole := ethernet + ipv4 + udp + len(payloads[i])
		if int(p.length) != whole || len(p.bytes) != min(whole, 64) {
			t.Fatalf("packet %d: %d bytes of %d, want %d of %d", i, len(p.bytes), p.length, min(whole, 64), whole)
		}
		if to := binary.BigEndian.Uint16(p.bytes[ethernet+ipv4+2:]); int(to) != port {
			t.Errorf("packet %d: to port %d, want %d", i, to, port)
		}
		if text := string(p.bytes[ethernet+ipv4+udp:]); !strings.HasPrefix(payloads[i], text) {
			t.Errorf("packet %d: %q, want %q", i, text, payloads[i])
		}
		if p.at.Before(before.Add(-time.Second)) || p.at.After(time.Now().Add(time.Second)) {
			t.Errorf("packet %d: at %v, not between %v and now", i, p.at, before)
		}
	}
}

// Where tshark is there, it says what the packets are.
func TestPcapTshark(t *testing.T) {
	testkernel.RequireRoot(t)
	dir, err := os.MkdirTemp("", "tshark") // which its user can read
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho \"$@\"; id -u; tail -c +25 | wc -c\n"
	if err := os.WriteFile(filepath.Join(dir, "tshark"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	stdout, _ := tracePackets(t, []string{"PATH=" + dir}, `pcap((struct sk_buff *)arg0, PCAP_ETHERNET)`, "one", "three")
	bytes := 2*(16+ethernet+ipv4+udp) + len("one") + len("three")
	if want := fmt.Sprintf("pcap \t-l -r -\npcap \t65534\npcap \t%d", bytes); stdout != want {
		t.Errorf("got %q, want %q", stdout, want)
	}
}

// Without it packets are printed as memory is.
func TestPcapText(t *testing.T) {
	testkernel.RequireRoot(t)
	stdout, _ := tracePackets(t, []string{"PATH="}, `this->skb = (struct sk_buff *)arg0; pcap(this->skb, PCAP_ETHERNET); printf("<next packet>");
		tracemem(this->skb->data, 64, this->skb->len); printf("<next packet>")`, "one", "three")
	parts := strings.Split("\n"+stdout, "<next packet>")
	if len(parts) != 5 || parts[0] != parts[1] || parts[2] != parts[3] || !strings.Contains(parts[2], "three") {
		t.Errorf("got %s", stdout)
	}
}
