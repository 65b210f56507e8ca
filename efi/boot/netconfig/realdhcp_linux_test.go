package netconfig

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"

	"writ/internal/test/testenv"
)

// udhcpd runs BusyBox's DHCP server on the host with additional settings.
func (l *lan) udhcpd(settings string) {
	l.Helper()
	dir, busybox := l.TempDir(), testenv.Need(l.T, "busybox")
	file := filepath.Join(dir, "udhcpd.conf")
	text := fmt.Sprintf("interface host\nlease_file %[1]s/leases\npidfile %[1]s/pid\nremaining yes\n%[2]s", dir, settings)
	if err := os.WriteFile(filepath.Join(dir, "leases"), nil, 0o600); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		l.Fatal(err)
	}
	var said bytes.Buffer
	server := exec.CommandContext(l.Context(), busybox, "udhcpd", "-f", file)
	server.Stdout, server.Stderr = &said, &said
	testenv.InNetns(l.T, l.space, server.Start)
	l.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if l.Failed() {
			l.Logf("udhcpd said:\n%s", &said)
		}
	})
}

func TestACardGetsALeaseOfUdhcpd(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	l.hasAddress(netip.MustParsePrefix("10.9.0.1/28"))
	l.udhcpd("start 10.9.0.5\nend 10.9.0.5\nopt subnet 255.255.255.240\nopt router 10.9.0.2 10.9.0.1\nopt dns 10.9.0.1 192.0.2.53\nopt hostname Rack-7.Example\n" +
		"opt mtu 1400\nopt lease 86400\nopt domain example.org\nopt search a.example b.example\nopt ntpsrv 10.9.0.1\nopt 43 0104c0000201\nopt staticroutes 10.8.0.0/16 10.9.0.3\n")
	l.start()
	l.gets("card 10.9.0.5/28, gateway 10.9.0.2, by DHCP from 10.9.0.1")
	l.hasOnly(v4, "10.9.0.5/28")
	l.resolves("10.9.0.1", "192.0.2.53")
	l.isCalled("rack-7")
	if card, err := netlink.LinkByName("card"); err != nil || card.Attrs().MTU != 1400 {
		t.Errorf("the card is %+v, %v", card, err)
	}
}
