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

// MaxMachines is how many machines are remembered. Of more, the one that was silent for longest is forgotten, of the network with most of them: an
// address that makes machines up pushes out its own.
const MaxMachines = 4096

// The steps that the boot server sees itself. Later ones are stages of package progress, which the machine reports.
const (
	StepScript  = "script"  // it has asked for its script
	StepLoading = "loading" // it is being sent the image
	StepSent    = "sent"    // it was sent the image to its end
)

// Machine is how far a machine has come. It says what requests under the address of its network card said. Requests are not authenticated, so this is
// a hint for people, and authorises nothing.
type Machine struct {
	MAC    string    `json:"mac"`
	Step   string    `json:"step"` // the last one that it reached: StepScript, StepLoading, StepSent, or a stage of package progress
	Since  time.Time `json:"since"`
	Heard  time.Time `json:"heard"`            // when it asked or reported last, or took a part of the image
	Failed bool      `json:"failed,omitempty"` // the step cannot go on, for the reason in Text
	Text   string    `json:"text,omitempty"`
	Next   string    `json:"next,omitempty"` // what a person does about it
	Held   bool      `json:"held,omitempty"` // it failed twice in the same way, and is tried seldom
	Node   string    `json:"node,omitempty"` // what it is called as a node

	Address string    `json:"address"` // where its last request came from
	Serial  string    `json:"serial,omitempty"`
	UUID    string    `json:"uuid,omitempty"`
	Asset   string    `json:"asset,omitempty"`
	Starts  int       `json:"starts"`          // how often it was started since it joined last
	Ended   string    `json:"ended,omitempty"` // what it says of the end of the start before: a panic of the kernel, its watchdog
	began   time.Time // the first of these starts

	// Failures is how often iPXE could not load or start the image, since the machine was started.
	Failures int `json:"failures,omitempty"`

	Given              string `json:"given,omitempty"` // settings of its own in the script that it has got
	expected, reported string // digests of all its settings: as its script had them, and as it has reported

	Image string `json:"image,omitempty"` // digest of the one that it loads
	Sent  int64  `json:"sent,omitempty"`  // bytes of it, up to which it was sent
	Size  int64  `json:"size,omitempty"`
}

// reach notes a step, and what belongs to it. The time is that of the first note that is the same.
func (m *Machine) reach(step string, failed bool, text string, now time.Time) {
	if m.Step != step || m.Failed != failed {
		m.Since = now
	}
	m.Step, m.Failed, m.Text, m.Next, m.Held = step, failed, text, "", false
}

// start notes that the machine was started.
func (m *Machine) start(now time.Time) {
	if m.Starts == 0 {
		m.began = now
	}
	m.Starts++
	m.Ended = ""
}

// report notes what a machine says of itself.
func (m *Machine) report(r progress.Report, now time.Time) {
	if r.Stage == progress.StageStart && !slices.Contains([]string{StepScript, StepLoading, StepSent, progress.StageStart}, m.Step) {
		m.start(now) // from a disk, so that it has asked for nothing before
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

// table has the machines.
type table struct {
	most int

	mu     sync.Mutex
	all    map[string]*entry // by MAC
	counts map[string]int    // of machines, by the network that made them known
}

type entry struct {
	Machine
	network string // from where the first request came
}

func newTable(most int) *table {
	return &table{most: most, all: map[string]*entry{}, counts: map[string]int{}}
}

// update changes what is known of a machine, and returns it. remote ("host:port") is where the request comes from.
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

// forget forgets one machine.
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

// list returns all machines. Those whose last step is the newest come first.
func (t *table) list() []Machine {
	t.mu.Lock()
	all := make([]Machine, 0, len(t.all))
	for _, e := range t.all {
		all = append(all, e.Machine)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b Machine) int {
		if newer := b.Since.Compare(a.Since); newer != 0 {
			return newer
		}
		return strings.Compare(a.MAC, b.MAC)
	})
	return all
}
