package bootd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"writ"
	"writ/cmd/writ/internal/daemon/nodetrust"
	"writ/cmd/writ/internal/transport"
	"writ/efi/bootserver"
	"writ/efi/progress"
	"writ/identity"
	"writ/internal/limit"
	"writ/internal/sleep"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

// The intervals and limits of reports. A pause per machine bounds the load of the supervisor.
const (
	bootReportEvery   = 2 * time.Second
	bootMachineTakes  = time.Millisecond // added for each machine
	maxReportedAdvice = 700
	maxReportedWord   = 200
)

// Reports sends the list of starting machines to the supervisor of a datacenter. Each report is complete, so a
// restarted supervisor needs only one.
type Reports struct {
	Token identity.Token
	Name  string        // of this host
	Every time.Duration // bootReportEvery if 0
	Log   *slog.Logger

	apis  []*nodes.Client
	at    int            // index in apis of the last API that answered
	next  nodes.BootNext // zero if it must be requested
	lines limit.Lines
	away  bool
}

// NewReports returns the reports of a boot server with a token. They go only to the supervisor of the token's
// datacenter.
func NewReports(token identity.Token, supervisors []string, log *slog.Logger) (*Reports, error) {
	if token.Datacenter == "" {
		return nil, writ.Errorf(writ.CodeTokenInvalid, "the token is for a supervisor, not for a boot server").
			WithHint("make one with `writ token create --role boot-server`")
	}
	_, key, err := ed25519.GenerateKey(nil) // the token authenticates the reports; the key is only for TLS
	if err != nil {
		return nil, err
	}
	trust, err := nodetrust.New(key, token.String(), "", log)
	if err != nil {
		return nil, err
	}
	b := &Reports{Token: token, Log: log}
	b.Name, _ = os.Hostname()
	for _, address := range supervisors {
		u, err := transport.Address("supervisor's node API", address)
		if err != nil {
			return nil, err
		}
		b.apis = append(b.apis, &nodes.Client{URL: u.String(), HTTP: trust.Client()})
	}
	if len(b.apis) == 0 {
		return nil, writ.Errorf(writ.CodeUsage, "--report-to is missing").
			WithHint("--report-to https://HOST:7441, the node API of the supervisor")
	}
	return b, nil
}

// Run reports the result of list until ctx ends.
func (b *Reports) Run(ctx context.Context, list func() bootserver.List) {
	for {
		said := list()
		b.note(ctx, b.report(ctx, said))
		if sleep.For(ctx, cmp.Or(b.Every, bootReportEvery)+time.Duration(len(said.Machines))*bootMachineTakes) != nil {
			return
		}
	}
}

// note logs when the supervisor begins or ceases to accept reports, and repeats the failure at a limited rate.
func (b *Reports) note(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err == nil && b.away:
		b.Log.InfoContext(ctx, "the supervisor accepts reports again")
	case err != nil:
		if times, say := b.lines.Say(string(writ.CodeOf(err)), time.Now()); say {
			b.Log.WarnContext(ctx, "report the starting machines; trying again", "code", writ.CodeOf(err),
				"err", err, "times", times)
		}
	}
	b.away = err != nil
}

// report sends a list. If the supervisor does not answer, or does not serve the datacenter, the next report goes to the
// next supervisor.
func (b *Reports) report(ctx context.Context, said bootserver.List) error {
	text, err := encodeBootList(b.Name, said)
	if err != nil {
		return err
	}
	err = b.send(ctx, text)
	if writ.CodeOf(err) == writ.CodeConflict { // the supervisor restarted, or an answer was lost
		b.next = nodes.BootNext{}
		err = b.send(ctx, text)
	}
	if code := writ.CodeOf(err); code == writ.CodeUnreachable || code.IsStoreUnavailable() {
		b.at, b.next = (b.at+1)%len(b.apis), nodes.BootNext{}
	}
	return err
}

func (b *Reports) send(ctx context.Context, text []byte) error {
	api := b.apis[b.at]
	if b.next.Nonce == nil {
		next, err := api.BootNext(ctx, b.Token.ID)
		if err != nil {
			return err
		}
		b.next = next
	}
	c := nodes.BootCredential{Token: b.Token.ID, Nonce: b.next.Nonce, Count: b.next.Count, List: writ.DigestOf(text)}
	c.Proof = b.Token.Prove(identity.BootReportText(c.Token, b.Token.Datacenter, c.Nonce, c.Count, c.List))
	b.next.Count++
	return api.ReportBoots(ctx, c, func() ([]byte, error) { return text, nil })
}

// encodeBootList encodes a list for a supervisor. If it is too long, the machines with the oldest steps are omitted.
func encodeBootList(name string, said bootserver.List) ([]byte, error) {
	report := link.BootReport{
		Name: name, Image: said.Image, Trouble: progress.Text(said.Trouble, maxReportedAdvice),
		Machines: link.BootMachines{},
	}
	for _, r := range said.Machines[:min(len(said.Machines), link.MaxBootMachines)] {
		report.Machines = append(report.Machines, link.BootMachine{
			MAC: r.MAC, Node: r.Node, Step: r.Step, Failed: r.Failed,
			Advice: progress.Text(r.Advice, maxReportedAdvice), Address: r.Address,
			Serial: r.Serial, Asset: r.Asset, UUID: r.UUID, Starts: r.Starts,
			Assigned: progress.Text(r.Assigned, maxReportedWord), Assignment: r.Assignment,
			AgeSeconds: r.AgeSeconds, SilentSeconds: r.SilentSeconds,
		})
	}
	for {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // an escaped character needs six bytes instead of one
		if err := e.Encode(report); err != nil {
			return nil, fmt.Errorf("encode the report: %w", err)
		}
		if b.Len() <= nodes.MaxBootList || len(report.Machines) == 0 {
			return b.Bytes(), nil
		}
		report.Machines = report.Machines[:len(report.Machines)/2]
	}
}
