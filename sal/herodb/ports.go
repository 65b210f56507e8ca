package herodb

import (
	"errors"
	"hash/fnv"
	"net"
	"slices"
	"strconv"
	"syscall"

	"writ"
	"writ/sal"
)

// Default ports of databases without a network. They are outside the kernel's default range for outgoing connections.
const (
	DefaultFirstPort = 20379
	DefaultLastPort  = 24378
)

// networkPort is the port of databases with a network, which have their own address.
const networkPort = 6379

// portRange is the range of ports for databases without a network. The zero value is the default range.
type portRange struct{ first, last int }

// choose returns a port for a database. It tries all ports of the range, beginning with a port that depends on the
// database's name. It skips ports in other records. It returns QUOTA_EXCEEDED if no port is free.
func (p portRange) choose(r *sal.Record[own], records []*sal.Record[own]) (int64, error) {
	if p.first == 0 {
		p = portRange{DefaultFirstPort, DefaultLastPort}
	}
	h := fnv.New32a()
	h.Write([]byte(r.Resource.HostName()))
	n := p.last - p.first + 1
	begin := int(h.Sum32() % uint32(n))
	for i := range n {
		port := int64(p.first + (begin+i)%n)
		taken := slices.ContainsFunc(records, func(other *sal.Record[own]) bool {
			return other.Resource != r.Resource && other.Own.Device == "" && other.Own.Port == port
		})
		if taken {
			continue
		}
		switch err := listens(r.Own.Host, port); {
		case err == nil:
			return port, nil
		case !errors.Is(err, syscall.EADDRINUSE): // another port would fail as well
			return 0, cannotListen(r.Resource, r.Own.Host, port, err)
		}
	}
	return 0, writ.Errorf(writ.CodeQuotaExceeded, "no port from %d to %d is free on this node", p.first, p.last).
		WithHint("give the databases networks, where each has its own address")
}

// listens returns an error if a process cannot listen on the address.
func listens(host string, port int64) error {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.FormatInt(port, 10)))
	if err != nil {
		return err
	}
	return l.Close()
}

// cannotListen returns the error for an address on which a process cannot listen.
func cannotListen(database writ.ResourceID, host string, port int64, err error) error {
	address := net.JoinHostPort(host, strconv.FormatInt(port, 10))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return writ.Errorf(writ.CodeDriverFailed, "cannot start %s: another process listens on %s", database, address).
			WithHint("`ss -ltnp 'sport = :%d'` shows which; when it has ended, the database starts", port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return writ.Errorf(writ.CodeDriverMissing,
			"cannot start %s: this node has no address %s, because its overlay does not run", database, host).
			WithHint("give the database a network, or start mycelium on the node; `writ node show` lists its unmet needs")
	}
	return sal.HostError("listen on "+address, err)
}
