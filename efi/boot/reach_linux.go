package boot

import (
	"bufio"
	"context"
	"net"
	"os"
	"strings"
	"time"

	"writ/efi/progress"
)

// Delays before the first and between further diagnoses. An error of the runner triggers one at once.
const (
	silentFor = 3 * time.Second
	lookAgain = 30 * time.Second
)

// explain reports why the runner does not reach its datacenter, until ctx ends.
func (n *nodeStage) explain(ctx context.Context) {
	p := &probe{lookUp: new(net.Resolver).LookupHost, dial: new(net.Dialer).DialContext, nameservers: nameservers}
	for next := time.After(silentFor); ; {
		select {
		case <-n.failing:
		case <-next:
		case <-ctx.Done():
			return
		}
		if next = nil; n.status.fine() {
			continue
		}
		err := p.servers(ctx, n.config.Supervisors, n.config.Redis)
		if ctx.Err() != nil {
			return
		}
		n.unreachable(err)
		next = time.After(lookAgain)
	}
}

// unreachable reports what is unreachable, unless that is already known. A nil error clears the problem.
func (n *nodeStage) unreachable(err error) {
	r := progress.Report{Stage: progress.StageRunner}
	if err != nil {
		r = progress.Failure(progress.StageRunner, err)
	}
	if !n.status.besides(r) || err == nil {
		return
	}
	for _, one := range progress.Flatten(err) {
		n.showFailure("reach", one)
	}
	known := n.known()
	r.Text, r.Next = known.Text, known.Next
	n.report(r)
}

// nameservers returns the nameservers of resolv.conf.
func nameservers() (all []string) {
	file, err := os.Open("/etc/resolv.conf")
	if err != nil {
		return nil
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if server, ok := strings.CutPrefix(lines.Text(), "nameserver "); ok {
			all = append(all, server)
		}
	}
	return all
}
