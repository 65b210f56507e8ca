package bootserver

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"writ/efi/progress"
	"writ/internal/limit"
)

// MaxMachines is the maximum number of tracked machines. At the limit, the network with the most machines loses the
// machine that was silent longest. So invented machines of one network displace only machines of the same network.
const MaxMachines = 4096

// Steps that the boot server observes itself. Later steps are stages of package progress, reported by the machine.
const (
	StepScript  = "script"  // requested its script
	StepLoading = "loading" // is receiving the image
	StepSent    = "sent"    // received the whole image
)

// Machine is the progress of a machine, derived from requests under its hardware address. Requests are not
// authenticated, so a Machine is only a hint for people and never authorises anything.
type Machine struct {
	MAC    string    `json:"mac"`
	Step   string    `json:"step"` // the latest: StepScript, StepLoading, StepSent, or a stage of package progress
	Since  time.Time `json:"since"`
	Heard  time.Time `json:"heard"`            // last request, report or transfer of a part of the image
	Failed bool      `json:"failed,omitempty"` // whether the step failed, for the reason in Text
	Text   string    `json:"text,omitempty"`
	Next   string    `json:"next,omitempty"` // remedy
	Held   bool      `json:"held,omitempty"` // whether the step failed twice in the same way, so that retries are rare
	Node   string    `json:"node,omitempty"` // the machine's name as a node

	Address string `json:"address"` // remote address of its last request
	Serial  string `json:"serial,omitempty"`
	UUID    string `json:"uuid,omitempty"`
	Asset   string `json:"asset,omitempty"`
	Starts  int    `json:"starts"` // starts since it last joined
	// Ended is the reported end of the previous run: a kernel panic or a reset by the watchdog.
	Ended string    `json:"ended,omitempty"`
	began time.Time // time of the first start that Starts counts

	// Failures counts failed attempts of iPXE to load or start the image since the machine started.
	Failures int `json:"failures,omitempty"`

	Given              string `json:"given,omitempty"` // the machine's own settings in its script
	expected, reported string // digests of all its settings, in its script and in its latest report

	Image string `json:"image,omitempty"` // digest of the image that it loads
	Sent  int64  `json:"sent,omitempty"`  // the image was sent up to this offset
	Size  int64  `json:"size,omitempty"`
}

// reach records a step. It sets Since only if Step or Failed changes.
func (m *Machine) reach(step string, failed bool, text string, now time.Time) {
	if m.Step != step || m.Failed != failed {
		m.Since = now
	}
	m.Step, m.Failed, m.Text, m.Next, m.Held = step, failed, text, "", false
}

// start counts a start of the machine.
func (m *Machine) start(now time.Time) {
	if m.Starts == 0 {
		m.began = now
	}
	m.Starts++
	m.Ended = ""
}

// ask records a request for a script.
func (m *Machine) ask(query func(string) string, now time.Time) {
	m.Serial, m.UUID, m.Asset = identityOf(query("serial")), identityOf(query("uuid")), identityOf(query("asset"))
	if query("failed") != "" {
		m.Failures++
	} else { // a new start
		m.Since, m.Node, m.Failures = now, "", 0
		m.start(now)
	}
	m.reach(StepScript, false, "", now)
	m.Image, m.Sent, m.Size = "", 0, 0
}

// identityOf normalises a value from firmware. It returns "" for a value without information, such as zeros.
func identityOf(text string) string {
	if strings.Trim(text, "0-") == "" {
		return ""
	}
	return progress.Text(text, maxIdentity)
}

// load records that the first upTo bytes of the image were sent.
func (m *Machine) load(digest string, upTo, size int64, now time.Time) {
	step := StepLoading
	if upTo == size {
		step = StepSent
	}
	m.reach(step, false, "", now)
	m.Image, m.Sent, m.Size = digest, upTo, size
}

// report applies a report of the machine.
func (m *Machine) report(r progress.Report, now time.Time) {
	if r.Stage == progress.StageStart &&
		!slices.Contains([]string{StepScript, StepLoading, StepSent, progress.StageStart}, m.Step) {
		m.start(now) // a start from a disk, because the machine requested no script
	}
	if r.Failed && !r.Held && (r.Stage == progress.StagePanic || r.Stage == progress.StageWatchdog) {
		m.Ended = r.Text
	}
	m.reach(r.Stage, r.Failed, r.Text, now)
	m.Next, m.Held = r.Next, r.Held
	m.Node, m.Failures = cmp.Or(r.Node, m.Node), 0
	m.reported = cmp.Or(r.Settings, m.reported)
	if r.Stage == progress.StageJoined {
		m.Starts = 0
	}
}

// table holds the tracked machines.
type table struct {
	most int

	mu     sync.Mutex
	all    map[string]*entry // by MAC
	counts map[string]int    // machines by network
}

type entry struct {
	Machine
	network string // network of the first request
}

func newTable(most int) *table {
	return &table{most: most, all: map[string]*entry{}, counts: map[string]int{}}
}

// update applies change to a machine, which it adds if needed, and returns the result. remote is the client's
// "host:port".
func (t *table) update(mac, remote string, now time.Time, change func(m *Machine)) Machine {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.all[mac]
	if e == nil {
		if len(t.all) >= t.most {
			t.forget()
		}
		e = &entry{Machine: Machine{MAC: mac}, network: limit.NetworkOf(remote)}
		t.all[mac] = e
		t.counts[e.network]++
	}
	e.Heard, e.Address = now, hostOf(remote)
	change(&e.Machine)
	return e.Machine
}

// forget removes the machine that was silent longest in the network with the most machines.
func (t *table) forget() {
	most := 0
	for _, n := range t.counts {
		most = max(most, n)
	}
	var oldest *entry
	for _, e := range t.all {
		if t.counts[e.network] == most && (oldest == nil || e.Heard.Before(oldest.Heard)) {
			oldest = e
		}
	}
	delete(t.all, oldest.MAC)
	if t.counts[oldest.network]--; t.counts[oldest.network] == 0 {
		delete(t.counts, oldest.network)
	}
}

// list returns all machines. Machines with the latest step come first.
func (t *table) list() []Machine {
	t.mu.Lock()
	all := make([]Machine, 0, len(t.all))
	for _, e := range t.all {
		all = append(all, e.Machine)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b Machine) int {
		return cmp.Or(b.Since.Compare(a.Since), strings.Compare(a.MAC, b.MAC))
	})
	return all
}
