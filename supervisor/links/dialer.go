package links

import (
	"context"
	"crypto/ed25519"

	"writ/identity"
	"writ/supervisor/link"
)

// dialer returns the supervisor's end of a link to a coordinator.
func (l *Links) dialer(url string) *link.Dialer {
	feed := l.Journal.Feed(url)
	d := &link.Dialer{
		URL: url, Hello: func() link.Hello { return l.hello(feed.ID()) }, Sign: l.signHello, Events: feed,
		Handle: l.asks.of(url, l.Answer), Fault: l.Fault, HTTP: l.HTTP, Log: l.Log,
	}
	d.Welcomed = func(ctx context.Context, w link.Welcome) { l.catchUp(ctx, d, w.Roster) }
	return d
}

// hello returns the hello of a link: datacenter, version, epoch, roster version and the given journal generation.
func (l *Links) hello(generation string) link.Hello {
	return link.Hello{
		Datacenter: l.Datacenter, Journal: generation, Version: l.Version,
		Verbs: link.ToSupervisor,
		Epoch: l.Epoch, Roster: l.Rosters.Current().Version, Restored: l.Journal.ReconcilesUntil(),
	}
}

// signHello signs the hello of a link and the nonce of the coordinator.
func (l *Links) signHello(hello link.Hello, nonce []byte, url string) ([]byte, error) {
	return ed25519.Sign(l.Key, identity.LinkHelloText(nonce, url, hello.Datacenter, hello.Journal)), nil
}

// catchUp fetches the rosters that a coordinator has and the supervisor lacks.
func (l *Links) catchUp(ctx context.Context, coordinator *link.Dialer, version int) {
	for have := l.Rosters.Current().Version; have < version; {
		var newer link.Rosters
		err := coordinator.Request(ctx, link.VerbRoster, link.RosterVersion{Version: have}, &newer)
		now := have
		if err == nil {
			now, err = l.Rosters.Adopt(ctx, newer.Signed)
		}
		if err != nil && ctx.Err() == nil {
			l.Warnings.Refused("", "adopt newer rosters", err, "have", have, "coordinator", version)
		}
		if err != nil || now <= have {
			return
		}
		have = now
	}
}
