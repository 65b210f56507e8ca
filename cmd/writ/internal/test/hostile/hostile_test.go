//go:build linux

package hostile

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/crypto/ssh"

	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord"
	"writ/coord/api"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
)

var (
	only   = flag.String("only", "", "a pattern of the attacks to measure, like node/ or project/lists")
	rounds = flag.Int("rounds", 3, "number of measurements of each attack")
	each   = flag.Duration("each", 10*time.Second, "duration of each quiet and each attack measurement")
	pace   = flag.Float64("pace", 2000, "maximum actions of the attacker per second")
	share  = flag.Float64("share", 0.5, "honest load, as a fraction of the capacity of the machine")
	asJSON = flag.String("json", "", "file for the figures")
)

// most is the maximum slowdown of honest runs under attack.
const most = 2

// gateEvery is the fraction of attacks that the gate runs: one in gateEvery, because each takes a second.
const gateEvery = 6

// TestHonestWorkContinuesUnderAttack counts: all honest runs succeed under every attack, and repeated actions of the
// attacker are not logged each time.
//
// Promise: Load and attackers: Honest runs succeed beside a hostile node, project or coordinator with any of 32
// attacks.
// How: All limits and shares together, between real processes; answers to the attacker stay within its limits.
func TestHonestWorkContinuesUnderAttack(t *testing.T) {
	t.Parallel()
	*pace = min(*pace, 500) // the effects of an attack outlast it
	s := newCluster(t, 1, 100)
	const runs = 6
	for i, one := range chosen(t) {
		if i%gateEvery != 0 && *only == "" && !testenv.IsNightly() {
			continue
		}
		lines, began := s.logged(), time.Now()
		s.attack(one)
		beside := s.honest.finish(runs)
		did := s.attacker.tell("", "")
		s.checkBound(one, did.Counts, time.Since(began))
		t.Logf("%-24s %d honest runs; the attacker: %s", one, beside.runs(), countsText(did.Counts))
		for _, err := range beside.failed {
			t.Errorf("%s: an honest run: %v", one, err)
		}
		if beside.runs()+len(beside.failed) != runs {
			t.Errorf("%s: %d honest runs, want %d", one, beside.runs(), runs)
		}
		s.checkLog(one, lines)
	}
}

// TestHonestLatencyUnderAttack measures the slowdown of honest runs under each attack, alternating with quiet
// periods.
func TestHonestLatencyUnderAttack(t *testing.T) {
	if !testenv.IsLong() {
		t.Skip("it measures for half an hour: task neighbours")
	}
	s := newCluster(t, len(nodeAttacks), 0)
	s.honest.work(5*time.Second, 0) // warm up
	full := s.honest.work(*each, 0)
	bears := float64(full.runs()) / each.Seconds()
	rate := bears * *share
	t.Logf("the machine bears %.0f runs/s; from now on %.0f", bears, rate)
	all := make([]result, len(chosen(t)))
	for round := range *rounds {
		before := s.honest.work(*each, rate)
		for i, one := range chosen(t) {
			took := s.measure(one, rate, before)
			all[i].attack = one.String()
			all[i].turns = append(all[i].turns, took.turn)
			before = took.after
			t.Logf("round %d, %-24s p99 %s quiet, %s with it: %.2f and %.2f times; %s; %s", round+1, one, text(took.Quiet[0].P99), text(took.Beside[0].P99),
				took.ratio(0), took.ratio(1), countsText(took.Did), cpuText(took.turn))
		}
	}
	show(t, bears, rate, all)
	for _, r := range all {
		if m := r.median(); max(m.ratio(0), m.ratio(1)) > most {
			t.Errorf("%s: honest runs take %.2f times as long, want at most %d", r.attack, max(m.ratio(0), m.ratio(1)), most)
		}
	}
}

// chosen returns the attacks that match the flag.
func chosen(t *testing.T) []attack {
	t.Helper()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(attacks(), func(one attack) bool { return !pattern.MatchString(one.String()) })
}

// cluster is a datacenter with projects and nodes of honest people, and with a project and nodes of the attacker.
type cluster struct {
	*testcluster.Cluster
	t        *testing.T
	honest   *honest
	attacker *remote
	evil     string // project
	nodes    int    // of the attacker: n2, n3, …
}

// newCluster starts all processes. Node n1 is honest and n2 belongs to the attacker. The supervisor dials two
// coordinators, one of them of the attacker.
//
// most limits the submissions per attack; 0 means no limit. With several nodes of the attacker, each serves a different
// attack, because an attack may get a node's account suspended.
func newCluster(t *testing.T, hostile int, most int64) *cluster {
	s := &cluster{Cluster: testcluster.Empty(t), t: t, evil: "evil", nodes: hostile}
	s.Rate = fmt.Sprint(coord.DefaultSubmissionsPerSecond)
	s.Found()
	second := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	redis := testenv.Redis(t)
	nodeAPI := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	key := filepath.Join(s.Dir, "mallory")
	public := newKey(t, key)
	for _, name := range append(honestProjects(), s.evil) {
		s.Writ("project", "add", name)
	}
	s.Writ("user", "add", "mallory", "--key", public, "--role", "deployer", "--project", s.evil)
	s.Add(testcluster.Datacenter{
		Name: "dc1", Redis: redis.URL, Nodes: 1 + hostile, Speed: "0", Listen: nodeAPI, Coordinators: []string{"http://" + second}, Node: []string{"--slots", "64"},
	})
	for i := range hostile {
		s.Kill(nodeName(i))
	}
	roster, err := s.Client.Roster.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.honest = newHonest(s.Cluster)
	s.attacker = startAttacker(t, powers{
		Rate: *pace, Most: most, Cluster: roster.Cluster, Rosters: filepath.Join(s.Dir, "cluster"), Key: key, Project: s.evil, API: s.URL, From: "127.0.0.66",
		NodeAPI: "http://" + nodeAPI, Redis: redis.URL, Listen: second,
	})
	return s
}

// nodeName returns the name of a node of the attacker.
func nodeName(i int) string { return fmt.Sprintf("dc1-n%d", i+2) }

// attack starts an attack.
func (s *cluster) attack(one attack) {
	i := slices.IndexFunc(nodeAttacks, func(other attack) bool { return other.String() == one.String() })
	s.attacker.tell(one.String(), filepath.Join(s.Dir, nodeName(max(i, 0)%s.nodes)))
}

// newKey writes a key file and returns the public key.
func newKey(t *testing.T, path string) (public string) {
	t.Helper()
	key, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return client.AuthorizedKey(sshsig.SSHKey(key))
}

// figures holds the results of a script in one period.
type figures struct {
	Runs int           `json:"runs"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
}

func figuresOf(s *sample) (all [2]figures) {
	for i, took := range s.took {
		all[i] = figures{len(took), percentile(took, 50), percentile(took, 99)}
	}
	return all
}

// turn holds the results of an attack and of the quiet periods around it.
type turn struct {
	Quiet  [2]figures         `json:"quiet"`  // runs of one call, and of ten calls
	Beside [2]figures         `json:"beside"` // the same under attack
	Failed int                `json:"failed"`
	Did    map[string]int64   `json:"did"` // counters of the attacker
	CPU    map[string]float64 `json:"cpu"` // cores used under attack, per process and by the attacker
	Before map[string]float64 `json:"cpu_quiet"`
	Lines  map[string]int     `json:"log_lines"` // by process
}

func (t turn) ratio(script int) float64 {
	return float64(t.Beside[script].P99) / float64(max(t.Quiet[script].P99, 1))
}

// took is a turn with the quiet period after it, which precedes the next turn.
type took struct {
	turn
	after *sample
}

// warmUp is how long an attack runs before it is measured.
const warmUp = time.Second

func (s *cluster) measure(one attack, rate float64, before *sample) took {
	s.attack(one)
	s.honest.work(warmUp, rate)
	lines, used, began := s.logged(), s.cpu(), time.Now()
	beside := s.honest.work(*each, rate)
	cores, wrote := coresSince(used, s.cpu(), time.Since(began)), s.logged()
	did := s.attacker.tell("", "")
	s.rest(rate)
	used, began = s.cpu(), time.Now()
	after := s.honest.work(*each, rate)
	calm := coresSince(used, s.cpu(), time.Since(began))
	for _, err := range beside.failed[:min(len(beside.failed), 3)] {
		s.t.Errorf("%s: an honest run: %v", one, err)
	}
	t := turn{
		Quiet: figuresOf(joined(before, after)), Beside: figuresOf(beside), Failed: len(beside.failed), Did: did.Counts, CPU: cores, Before: calm,
		Lines: map[string]int{},
	}
	for name := range wrote {
		t.Lines[name] = wrote[name] - lines[name]
	}
	return took{t, after}
}

// restWithin limits the wait in rest. A thousand runs of two thousand calls need several minutes.
const restWithin = 15 * time.Minute

// rest applies the honest load until no effect of the attack is left.
func (s *cluster) rest(rate float64) {
	for late := time.Now().Add(restWithin); ; {
		s.honest.work(warmUp, rate)
		open, err := api.Answer[api.RunPage](s.Client.API.ListRuns(s.t.Context(), &api.ListRunsParams{
			Project: api.Given(s.evil), Limit: api.Given(1), State: []api.RunState{api.RunStateWaiting, api.RunStateAccepted, api.RunStateRunning},
		}))
		if err == nil && len(open.Items) == 0 {
			return
		}
		if time.Now().After(late) {
			s.t.Fatalf("runs of an attack do not end: %v, %v", open.Items, err)
		}
	}
}

// cpu returns the CPU time of each process.
func (s *cluster) cpu() map[string]time.Duration {
	used := map[string]time.Duration{"attacker": cpuOf(s.attacker.cmd.Process.Pid), "honest": cpuOf(os.Getpid())}
	for name, p := range s.Procs {
		if !p.Ended() && !strings.HasPrefix(name, "add ") {
			used[name] = cpuOf(p.Cmd.Process.Pid)
		}
	}
	return used
}

func coresSince(before, now map[string]time.Duration, passed time.Duration) map[string]float64 {
	cores := map[string]float64{}
	for name := range now {
		cores[name] = (now[name] - before[name]).Seconds() / passed.Seconds()
	}
	return cores
}

// logged counts the log lines of each process.
func (s *cluster) logged() map[string]int {
	lines := map[string]int{}
	for _, name := range []string{"coord", "dc1"} { // not of nodes, which log the outcome of each job
		text, err := os.ReadFile(filepath.Join(s.Dir, name+".log"))
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") || strings.Contains(line, "refused") {
				lines[name]++
			}
		}
	}
	return lines
}

// linesMost limits the log lines per process and attack: one for each kind of action.
const linesMost = 25

func (s *cluster) checkLog(one attack, before map[string]int) {
	for name, n := range s.logged() {
		if n -= before[name]; n > linesMost {
			s.t.Errorf("%s: %s has logged %d lines", one, name, n)
		}
	}
}

// checkBound fails the test if the attacker got more responses than the limits per address allow.
func (s *cluster) checkBound(one attack, did map[string]int64, within time.Duration) {
	for _, bound := range []struct {
		attack, answer string
		most           float64
	}{
		{"node/joins", "SIGNATURE_INVALID", 50 + 25*within.Seconds()}, // each join needs a hello and a claim
		{"node/fetches", "done", 2000 + 1000*within.Seconds()},
		// Three quarters of all streams. A slow reader is disconnected after ten seconds and frees a place.
		{"project/watchers", "opened", 192 * (1 + math.Floor(within.Seconds()/10))},
		{"project/lists", "done", 200 + 100*within.Seconds()},
		{"project/runs", "done", 2*coord.DefaultSubmissionsPerSecond + coord.DefaultSubmissionsPerSecond*within.Seconds()},
	} {
		if n := did[bound.answer]; bound.attack == one.String() && float64(n) > bound.most+1 {
			s.t.Errorf("%s: %d times %s in %s, want at most %.0f", one, n, bound.answer, within, bound.most)
		}
	}
}

// result holds the measurements of an attack.
type result struct {
	attack string
	turns  []turn
}

// show prints all results and writes them to a file if requested.
func show(t *testing.T, bears, rate float64, all []result) {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ATTACK\tP50\tP99\tBESIDE P50\tP99\tRATIO P99\tTEN CALLS P99\tBESIDE\tRATIO P99\tATTACKER\tDID")
	for _, r := range all {
		m := r.median()
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.2f\t%s\t%s\t%.2f\t%.2f cores\t%s\n", r.attack, text(m.Quiet[0].P50), text(m.Quiet[0].P99), text(m.Beside[0].P50),
			text(m.Beside[0].P99), m.ratio(0), text(m.Quiet[1].P99), text(m.Beside[1].P99), m.ratio(1), m.CPU["attacker"], countsText(m.Did))
	}
	table.Flush()
	t.Logf("%.0f of %.0f runs/s; the median of %d rounds by its ratio\n%s", rate, bears, *rounds, &b)
	if *asJSON == "" {
		return
	}
	file := struct {
		Bears   float64           `json:"runs_per_second_at_most"`
		Rate    float64           `json:"runs_per_second"`
		Attacks map[string][]turn `json:"attacks"`
	}{bears, rate, map[string][]turn{}}
	for _, r := range all {
		file.Attacks[r.attack] = r.turns
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		err = os.WriteFile(*asJSON, text, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// median returns the median turn by its worse slowdown.
func (r result) median() turn {
	sorted := slices.SortedFunc(slices.Values(r.turns), func(a, b turn) int {
		return cmp.Compare(max(a.ratio(0), a.ratio(1)), max(b.ratio(0), b.ratio(1)))
	})
	return sorted[len(sorted)/2]
}

func text(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

func countsText(counts map[string]int64) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[what], what))
	}
	return strings.Join(parts, ", ")
}

func cpuText(t turn) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.CPU)) {
		parts = append(parts, fmt.Sprintf("%s %.2f (%.2f)", name, t.CPU[name], t.Before[name]))
	}
	return "cores: " + strings.Join(parts, ", ")
}
