package vmm

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errLocked means that another process has the lock.
var errLocked = errors.New("locked by another process")

// openDisk opens a disk for writing or reading.
func openDisk(path string, readOnly bool) (*os.File, error) {
	if readOnly {
		return os.OpenFile(path, os.O_RDONLY, 0)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// lockDisk locks a whole disk for writing or reading. The lock belongs to the open file, not to the process.
func lockDisk(f *os.File, readOnly bool) error {
	if readOnly {
		return lock(f, unix.F_RDLCK)
	}
	return lock(f, unix.F_WRLCK)
}

func unlockDisk(f *os.File) { _ = lock(f, unix.F_UNLCK) }

func lock(f *os.File, kind int16) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errLocked
	}
	return err
}

// lockSocket locks the file beside a socket until the returned file is closed.
func lockSocket(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f, unix.F_WRLCK); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// openTap attaches to a tap, which it creates if necessary, and brings it up. It returns EBUSY if another process is
// attached.
func openTap(name string, mac *string, mtu *uint16) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "/dev/net/tun")
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = setUp(name, mac, mtu)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// hardwareRequest is the ifreq of SIOCSIFHWADDR.
type hardwareRequest struct {
	name   [unix.IFNAMSIZ]byte
	family uint16
	mac    [22]byte
}

// setUp sets the address and MTU of a link, if given, and brings it up.
func setUp(name string, mac *string, mtu *uint16) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if mac != nil {
		address, err := net.ParseMAC(*mac)
		if err != nil {
			return err
		}
		r := hardwareRequest{family: unix.ARPHRD_ETHER}
		copy(r.name[:unix.IFNAMSIZ-1], name)
		copy(r.mac[:], address)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCSIFHWADDR, uintptr(unsafe.Pointer(&r))); errno !=
			0 {
			return errno
		}
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if mtu != nil {
		request.SetUint32(uint32(*mtu))
		if err := unix.IoctlIfreq(s, unix.SIOCSIFMTU, request); err != nil {
			return err
		}
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, request); err != nil {
		return err
	}
	if request.Uint16()&unix.IFF_UP != 0 {
		return nil // an unprivileged process may not even set the flag again
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request)
}

// tapCounters returns the traffic of a guest: received counts the bytes and frames that its tap has sent, and vice
// versa. It returns zeros if the tap is missing.
func tapCounters(name string) map[string]uint64 {
	counters := map[string]uint64{"rx_bytes": 0, "rx_frames": 0, "tx_bytes": 0, "tx_frames": 0}
	text, _ := os.ReadFile("/proc/self/net/dev") // of this network namespace, unlike /sys
	for line := range strings.Lines(string(text)) {
		link, numbers, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields := strings.Fields(numbers)
		if link != name || len(fields) < 10 {
			continue
		}
		for counter, i := range map[string]int{"tx_bytes": 0, "tx_frames": 1, "rx_bytes": 8, "rx_frames": 9} {
			counters[counter], _ = strconv.ParseUint(fields[i], 10, 64)
		}
	}
	return counters
}

// killWithParent makes the kernel kill a child when this process ends for any reason.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
}

// pair returns the two ends of a connection.
func pair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	mine := os.NewFile(uintptr(fds[0]), "qmp")
	defer mine.Close()
	theirs = os.NewFile(uintptr(fds[1]), "qmp")
	if ours, err = net.FileConn(mine); err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	return ours, theirs, nil
}

// send writes to a connection made by pair, and passes a file unless it is nil.
func send(conn net.Conn, text []byte, file *os.File) error {
	if file == nil {
		_, err := conn.Write(text)
		return err
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("only a unix socket can pass files")
	}
	_, _, err := unixConn.WriteMsgUnix(text, unix.UnixRights(int(file.Fd())), nil)
	return err
}

// umask makes new files private.
func umask() { unix.Umask(0o077) }
