package runner

import (
	"context"
	"reflect"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/failpoint"
	"writ/supervisor/nodes"
)

const (
	// resendHost is the interval at which unchanged facts about the machine are sent again: a message may be lost, and
	// the supervisor does not acknowledge messages of this kind.
	resendHost = 10 * time.Minute
	// hostFor limits how long the facts about the machine, or the sizes of its disks, may take to read. A stuck kernel
	// driver or file system then blocks no other work.
	hostFor = 5 * time.Second
	// sameBoot is the tolerance for comparing boot times: the kernel derives the boot time from a clock that may be
	// adjusted.
	sameBoot = time.Minute
)

// machine holds the last facts that were sent about the machine.
type machine struct {
	host  writ.Host
	epoch int64 // epoch of the receiving supervisor
	at    time.Time
	count int64
}

// reportHost sends the facts about the machine, if they changed or a resend is due.
func (k *keeper) reportHost(ctx context.Context) {
	if k.host == nil {
		return
	}
	host, err := asked(ctx, &k.calls, "host", hostFor, func(context.Context) (writ.Host, error) { return k.host(), nil })
	if err != nil {
		k.log.WarnContext(ctx, "read the facts about the machine", "err", err)
		return
	}
	sent, epoch, now := &k.machine, k.epochs.highest(), time.Now()
	if sent.count > 0 && host.Booted.Sub(sent.host.Booted).Abs() < sameBoot {
		host.Booted = sent.host.Booted
	}
	if sent.count > 0 && sent.epoch == epoch && now.Sub(sent.at) < resendHost && reflect.DeepEqual(host, sent.host) {
		return
	}
	report := &nodes.HostReport{Node: k.node, Incarnation: k.number, Count: sent.count + 1, Epoch: epoch, Host: host}
	// After a failure, which send logs, the next scan sends the facts.
	if k.link.send(failpoint.At(ctx, failpoint.HostSent), envelope.Host, report) == nil {
		*sent = machine{host, epoch, now, report.Count}
	}
}

// disks returns the file systems with data of the node, for a report. If a file system does not answer, the report is
// sent without disks.
func (k *keeper) disks(ctx context.Context) []writ.Disk {
	if k.diskList == nil {
		return nil
	}
	disks, err := asked(ctx, &k.calls, "disks", hostFor,
		func(context.Context) ([]writ.Disk, error) { return k.diskList(), nil })
	if err != nil {
		k.log.WarnContext(ctx, "measure the disks", "err", err)
		return nil
	}
	for _, d := range disks {
		if d.AlmostFull() && !k.fullDisks[d.Path] {
			k.log.WarnContext(ctx, "a disk is almost full", "disk", d.String())
		}
		k.fullDisks[d.Path] = d.AlmostFull()
	}
	return disks
}
