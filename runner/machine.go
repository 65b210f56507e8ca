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
	// resendHost is when what is known of the machine is sent again: a message may get lost, and no supervisor acknowledges this one.
	resendHost = 10 * time.Minute
	// hostFor is how long the kernel may take to say what the machine is. A card whose driver is stuck keeps nothing else waiting.
	hostFor = 5 * time.Second
	// sameBoot is how much the time of the start may move while it is the same start: the kernel reckons it from a clock that is set.
	sameBoot = time.Minute
)

// machine is what was sent of the machine that the node runs on.
type machine struct {
	host  writ.Host
	epoch int64 // of the supervisor to which it was sent
	at    time.Time
	count int64
}

// reportHost sends the supervisor what the machine is, if that is news to it.
func (k *keeper) reportHost(ctx context.Context) {
	if k.host == nil {
		return
	}
	host, err := asked(ctx, k, "host", hostFor, func(context.Context) (writ.Host, error) { return k.host(), nil })
	if err != nil {
		k.log.WarnContext(ctx, "read the facts of the machine", "err", err)
		return
	}
	sent, epoch, now := &k.machine, k.epoch.Load(), time.Now()
	if sent.count > 0 && host.Booted.Sub(sent.host.Booted).Abs() < sameBoot {
		host.Booted = sent.host.Booted
	}
	if sent.count > 0 && sent.epoch == epoch && now.Sub(sent.at) < resendHost && reflect.DeepEqual(host, sent.host) {
		return
	}
	report := &nodes.HostReport{Node: k.node, Incarnation: k.number, Count: sent.count + 1, Epoch: epoch, Host: host}
	if k.send(failpoint.At(ctx, failpoint.HostSent), envelope.Host, report) == nil { // else noted, and sent after the next look
		*sent = machine{host, epoch, now, report.Count}
	}
}
