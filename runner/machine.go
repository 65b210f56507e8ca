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
	// hostAgain is how long what is known of the machine counts as told: a message may get lost, and no supervisor acknowledges this one.
	hostAgain = 10 * time.Minute
	// hostFor is how long the kernel may take to say what the machine is. A card whose driver is stuck keeps nothing else waiting.
	hostFor = 5 * time.Second
	// sameBoot is how much the time of the start may move while it is the same start: the kernel reckons it from a clock that is set.
	sameBoot = time.Minute
)

// machine is what was told of the machine that the node runs on.
type machine struct {
	host  writ.Host
	epoch int64 // of the supervisor that was told
	at    time.Time
	count int64
}

// tellHost tells the supervisor what the machine is, if that is news to it.
func (k *keeper) tellHost(ctx context.Context) {
	if k.host == nil {
		return
	}
	host, err := asked(ctx, k, "host", hostFor, func(context.Context) (writ.Host, error) { return k.host(), nil })
	if err != nil {
		k.log.WarnContext(ctx, "read the facts of the machine", "err", err)
		return
	}
	told, epoch, now := &k.machine, k.epoch.Load(), time.Now()
	if told.count > 0 && host.Booted.Sub(told.host.Booted).Abs() < sameBoot {
		host.Booted = told.host.Booted
	}
	if told.count > 0 && told.epoch == epoch && now.Sub(told.at) < hostAgain && reflect.DeepEqual(host, told.host) {
		return
	}
	report := &nodes.HostReport{Node: k.node, Incarnation: k.number, Count: told.count + 1, Epoch: epoch, Host: host}
	if k.send(failpoint.At(ctx, failpoint.HostSent), envelope.Host, report) == nil { // else noted, and sent after the next look
		*told = machine{host, epoch, now, report.Count}
	}
}
