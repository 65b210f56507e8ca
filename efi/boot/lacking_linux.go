package boot

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lackingNow lists the drivers and the firmware that this machine lacks for devices of a class.
func lackingNow(class deviceClass) string {
	return lacking(os.DirFS("/sys"), kernelLog(), class)
}

// kernelLog returns the buffered messages of the kernel.
func kernelLog() string {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var log strings.Builder
	record := make([]byte, 8<<10) // larger than the longest record
	for {
		n, err := unix.Read(fd, record)
		switch {
		case err == unix.EPIPE || err == unix.EINTR: // older records were overwritten meanwhile
		case err != nil || n <= 0: // EAGAIN at the end
			return log.String()
		default:
			log.Write(record[:n])
		}
	}
}

// noNetwork returns the reason for the missing address, with a remedy.
func (n *network) noNetwork() error {
	a := addressless{lacks: lackingNow(networkDevices), unmatched: n.unmatched(), waits: n.String()}
	a.cards, a.bare, a.next = n.count()
	return a.trouble()
}

// count returns the number of cards and of those without a cable. next is the remedy for an unusable card.
func (s *cardSet) count() (cards, bare int, next string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cards {
		if c.waits[v4].text == noCarrier {
			bare++
		}
		next = max(next, c.next)
	}
	return len(s.cards), bare, next
}
