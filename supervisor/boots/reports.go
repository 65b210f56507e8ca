// Package boots holds the reports of boot servers about machines that start. A machine does not authenticate to its
// boot server, and any machine in the same network can report as another. So reports are limited in size, cleaned for
// display, and never used for decisions.
package boots

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/lazyregexp"
	"writ/internal/limit"
	"writ/supervisor/admission"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

// Limits of boot reports. Reports are held in memory only: boot servers report everything again after a supervisor
// restart.
const (
	bootReportsPerSecond = 1
	bootReportsAtOnce    = 5
	maxBootAdvice        = 1 << 10 // bytes
	maxBootWord          = 256
	// maxBootsAhead limits the numbers that a report may skip. Otherwise, a report with a very large number would leave
	// no next number.
	maxBootsAhead = 1000
	sameSince     = 3 * time.Second // tolerance: ages are in whole seconds, and reports take time to arrive
)

// Config holds the dependencies of Reports. All fields are required.
type Config struct {
	Datacenter writ.DatacenterID
	Journal    *journal.Journal
	Roster     func() *identity.Roster // roster in force
	Now        func() time.Time        // wall clock
}

// Reports holds the newest report of each boot server, in memory only.
type Reports struct {
	config Config
	nonce  []byte // random, per supervisor start
	rates  limit.Names

	mu  sync.Mutex
	all map[string]*bootServer // by the id of its token
	// number of the last report, by token id; only tokens that people have created have entries
	counts map[string]int64
	ended  map[string]bool     // ids of tokens revoked since the supervisor started
	begun  map[string]bool     // ids of tokens whose report is being received
	sorted []*link.BootMachine // machines of all servers, in list order; nil if outdated
}

type bootServer struct {
	link.BootServer
	expires  time.Time // of its token
	machines []link.BootMachine
}

// New returns reports without any boot server.
func New(config Config) *Reports {
	return &Reports{
		config: config, nonce: identity.NewChallenge(), all: map[string]*bootServer{}, counts: map[string]int64{},
		ended: map[string]bool{}, begun: map[string]bool{},
		rates: limit.Names{PerSecond: bootReportsPerSecond, AtOnce: bootReportsAtOnce},
	}
}

var _ nodes.BootReports = (*Reports)(nil)

// BootNext implements nodes.BootReports.
func (b *Reports) BootNext(_ context.Context, token string) (nodes.BootNext, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return nodes.BootNext{Nonce: b.nonce, Count: b.counts[token] + 1}, nil
}

// ReportBoots implements nodes.BootReports.
func (b *Reports) ReportBoots(ctx context.Context, c nodes.BootCredential, read func() ([]byte, error)) error {
	token, err := b.token(ctx, c)
	if err != nil {
		return err
	}
	if wait, ok := b.rates.Reserve(c.Token, 1, 0); !ok {
		return writ.Errorf(writ.CodeRateLimited, "the boot server reports too often").
			WithHint("it may do so again in %s", wait.Round(time.Second)+time.Second)
	}
	done, ok := b.begin(c.Token)
	if !ok {
		return writ.Errorf(writ.CodeRateLimited, "a report with this token is on its way").
			WithHint("each boot server needs its own token")
	}
	defer done()
	text, err := read()
	if err != nil {
		return err
	}
	if writ.DigestOf(text) != c.List {
		return writ.Errorf(writ.CodeTokenInvalid, "the proof of the boot server is for another list")
	}
	var report link.BootReport
	if err := json.Unmarshal(text, &report); err != nil {
		if known := writ.AsError(err); known.Code != writ.CodeInternal {
			return known
		}
		return writ.Errorf(writ.CodeBadRequest, "the list of a boot server cannot be read: %v", err)
	}
	return b.apply(c, report, token.Expires, b.config.Now())
}

// token returns the token of a credential after it has checked the proof, the token's state and the report number.
func (b *Reports) token(ctx context.Context, c nodes.BootCredential) (*journal.BootToken, error) {
	var token *journal.BootToken
	if identity.ValidTokenID(c.Token) {
		var err error
		token, err = journal.Query(ctx, b.config.Journal, func(tx *journal.Tx) (*journal.BootToken, error) {
			return tx.BootToken(c.Token)
		})
		if err != nil {
			return nil, err
		}
	}
	var key identity.TokenKey
	if token != nil {
		copy(key[:], token.Key)
	}
	switch {
	case !key.Verify(identity.BootReportText(c.Token, b.config.Datacenter, c.Nonce, c.Count, c.List), c.Proof):
		return nil, writ.Errorf(writ.CodeTokenInvalid, "the boot server has no token of this datacenter").
			WithHint("make one with `writ token create --role boot-server`")
	case token.Ended(b.config.Now()) || admission.MakerMay(b.config.Roster(), token.CreatedBy, b.config.Now()) != nil:
		return nil, tokenEnded()
	}
	return token, b.isNext(c)
}

func tokenEnded() error {
	return writ.Errorf(writ.CodeTokenInvalid, "the token of the boot server has ended").
		WithHint("make another one with `writ token create --role boot-server`")
}

// begin marks that a list of this token is being received, until `done` is called. It reports false if another list is
// being received. A slow list stays in memory until it is complete, so only one list per token is received at a time.
func (b *Reports) begin(token string) (done func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun[token] {
		return nil, false
	}
	b.begun[token] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.begun, token)
	}, true
}

// isNext returns an error if the number of the report does not follow the last report of the token.
func (b *Reports) isNext(c nodes.BootCredential) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.follows(c)
}

func (b *Reports) follows(c nodes.BootCredential) error {
	if b.ended[c.Token] {
		return tokenEnded()
	}
	if last := b.counts[c.Token]; string(c.Nonce) != string(b.nonce) || c.Count <= last || c.Count > last+maxBootsAhead {
		return writ.Errorf(writ.CodeConflict, "this report of a boot server does not follow its last report").
			WithHint("request the expected number first; each boot server needs its own token")
	}
	return nil
}

// apply stores the machines of a new report in place of the earlier machines of the boot server. It checks the report
// number again, because the token may have been revoked while the list was received.
func (b *Reports) apply(c nodes.BootCredential, report link.BootReport, expires, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.follows(c); err != nil {
		return err
	}
	b.counts[c.Token] = c.Count
	before := map[string]*link.BootMachine{}
	if known := b.all[c.Token]; known != nil {
		for i := range known.machines {
			before[known.machines[i].MAC] = &known.machines[i]
		}
	} else if len(b.all) >= link.MaxBootServers {
		b.forgetOldest()
	}
	server := &bootServer{expires: expires, BootServer: link.BootServer{
		Token: c.Token, Name: bound.OneLine(report.Name, maxBootWord), Heard: now,
		Image:   bound.OneLine(report.Image, maxBootWord),
		Trouble: bound.OneLine(report.Trouble, maxBootAdvice),
	}}
	seen := map[string]bool{}
	for _, m := range report.Machines {
		if m, ok := limitMachine(m, c.Token, before[m.MAC], now); ok && !seen[m.MAC] {
			seen[m.MAC] = true
			server.machines = append(server.machines, m)
		}
	}
	server.Machines = len(server.machines)
	b.all[c.Token], b.sorted = server, nil
	return nil
}

func (b *Reports) forgetOldest() {
	var oldest *bootServer
	for _, s := range b.all {
		if oldest == nil || s.Heard.Before(oldest.Heard) {
			oldest = s
		}
	}
	delete(b.all, oldest.Token)
}

// EndToken drops the report of a revoked token and rejects later reports, including a report that is being received.
func (b *Reports) EndToken(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended[token] = true
	delete(b.all, token)
	b.sorted = nil
}

var (
	bootMachinePattern = lazyregexp.New(`^([0-9a-f]{2}(:[0-9a-f]{2}){5}|serial=[!-~]{1,200})$`)
	bootStepPattern    = lazyregexp.New(`^[a-z][a-z0-9-]{0,15}$`)
)

// limitMachine returns a reported machine with all fields limited for display. It returns false if the machine address
// or step is invalid. `before` is the same machine in the previous report, or nil.
func limitMachine(m link.BootMachine, token string, before *link.BootMachine, now time.Time) (link.BootMachine, bool) {
	if !bootMachinePattern.MatchString(m.MAC) || m.Step != "" && !bootStepPattern.MatchString(m.Step) {
		return m, false
	}
	if m.Node != "" && !writ.ValidName(m.Node) {
		m.Node = ""
	}
	m.Server, m.Starts, m.Advice = token, max(m.Starts, 0), bound.OneLine(m.Advice, maxBootAdvice)
	for _, text := range []*string{&m.Address, &m.Serial, &m.Asset, &m.UUID, &m.Assigned, &m.Assignment} {
		*text = bound.OneLine(*text, maxBootWord)
	}
	m.Since, m.Heard = timeAgo(m.AgeSeconds, now), timeAgo(m.SilentSeconds, now)
	if before != nil { // an unchanged machine keeps its times, so that it causes no update
		m.Heard = steady(m.Heard, before.Heard)
		if m.Step == before.Step && m.Failed == before.Failed {
			m.Since = steady(m.Since, before.Since)
		}
	}
	m.AgeSeconds, m.SilentSeconds = 0, 0
	return m, true
}

// timeAgo returns the time that lies `seconds` before `now`, in whole seconds. It limits `seconds` to ten years.
func timeAgo(seconds int64, now time.Time) time.Time {
	return now.Add(-time.Duration(min(max(seconds, 0), 10*365*86400)) * time.Second).UTC().Truncate(time.Second)
}

func steady(now, before time.Time) time.Time {
	if now.Sub(before).Abs() <= sameSince {
		return before
	}
	return now
}

// ListBoots returns the boot servers, the number of machines per step, and the machines after the first asked.After
// machines. The list of machines ends after asked.Max machines (0 means no limit) or bound.MaxAnswer bytes. It drops
// servers whose token has expired.
func (b *Reports) ListBoots(asked link.Boots) link.BootList {
	now := b.config.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, s := range b.all {
		if !s.expires.After(now) {
			delete(b.all, id)
			b.sorted = nil
		}
	}
	b.sort()
	list := link.BootList{
		Servers: []link.BootServer{}, Steps: map[string]int{}, Total: len(b.sorted), Machines: []link.BootMachine{},
	}
	for _, s := range b.all {
		list.Servers = append(list.Servers, s.BootServer)
	}
	slices.SortFunc(list.Servers, func(a, b link.BootServer) int { return strings.Compare(a.Token, b.Token) })
	for _, m := range b.sorted {
		list.Steps[stepOf(m)]++
		if m.Failed {
			list.Failed++
		}
	}
	size, rest := 0, b.sorted[min(max(asked.After, 0), len(b.sorted)):]
	for _, m := range rest {
		text, err := json.Marshal(m)
		size += len(text)
		if err != nil || size > bound.MaxAnswer || asked.Max > 0 && len(list.Machines) == asked.Max {
			break
		}
		list.Machines = append(list.Machines, *m)
	}
	return list
}

// perAddress is the number of machines of one address that are listed before it is the turn of other addresses.
const perAddress = 8

// sort orders the machines of all boot servers by the time of their step, newest first, in turns: each address gets
// perAddress machines per turn. An answer may not have room for all machines. Without turns, an address could report
// any number of invented machines and so displace the machines of other addresses.
func (b *Reports) sort() {
	if b.sorted != nil {
		return
	}
	b.sorted = []*link.BootMachine{}
	for _, s := range b.all {
		for i := range s.machines {
			b.sorted = append(b.sorted, &s.machines[i])
		}
	}
	slices.SortFunc(b.sorted, func(a, b *link.BootMachine) int {
		return cmp.Or(b.Since.Compare(a.Since), strings.Compare(a.MAC, b.MAC), strings.Compare(a.Server, b.Server))
	})
	turn, had := make(map[*link.BootMachine]int, len(b.sorted)), map[[2]string]int{}
	for _, m := range b.sorted {
		from := [2]string{m.Server, m.Address}
		turn[m] = had[from] / perAddress
		had[from]++
	}
	slices.SortStableFunc(b.sorted, func(a, b *link.BootMachine) int { return turn[a] - turn[b] })
}

// stepOf returns the step under which a machine is counted.
func stepOf(m *link.BootMachine) string {
	if slices.Contains(link.BootSteps, m.Step) {
		return m.Step
	}
	return link.BootOther
}
