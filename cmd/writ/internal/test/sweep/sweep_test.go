package sweep

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	_ "modernc.org/sqlite"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/failpoint"
	"writ/internal/test/testenv"
	"writ/runner/member"
	"writ/supervisor/nodes"
)

var (
	seed = flag.Uint64("seed", 0, "seed for the places of the short sweep; random if 0")
	only = flag.String("only", "", "pattern of the ends to sweep, each NAME:MODE; if empty, the ends of the short form, or all")
)

func TestMain(m *testing.M) {
	code := m.Run()
	_ = testcluster.RemoveBinaries() // on failure, files remain in the system's temporary directory
	os.Exit(code)
}

// luck returns the seed of all random choices.
func luck(t *testing.T) uint64 {
	t.Helper()
	*seed = testenv.Seed(t, *seed)
	return *seed
}

// nightlySweep is the number of ends in the short form.
const nightlySweep = 12

// scene describes how a place is reached: the process that ends, and the actions that lead there.
type scene struct {
	victim string // newNode for a joining node
	before func(w *cluster)
	during func(w *cluster)
	nth    int    // which occurrence of the place; 0 for the first
	also   string // additional places on the way
	only   []failpoint.Mode
	late   bool // takes more than a minute: excluded from the short form
}

// Names of victims that are created for a scene.
const (
	newNode         = "a new node"
	newDatacenter   = "a new datacenter"
	newOnPostgreSQL = "a new datacenter on PostgreSQL"
	meteredNode     = metered + "-n1" // of a datacenter that is created on demand and stays
	metered         = "metered"
)

// end is one end of one process.
type end struct {
	place failpoint.Place
	mode  failpoint.Mode
	scene scene
}

func (e end) String() string { return fmt.Sprintf("%s:%s", e.place.Point, e.mode) }

// plan returns the instruction for the process.
func (e end) plan() string {
	plan := e.String()
	if e.scene.nth > 1 {
		plan += fmt.Sprintf(":%d", e.scene.nth)
	}
	if e.scene.also != "" {
		plan = e.scene.also + ";" + plan
	}
	return failpoint.Variable + "=" + plan
}

// ends lists all ends of the sweep.
func ends(t *testing.T) (all []end) {
	t.Helper()
	for _, place := range failpoint.Places {
		s, ok := scenes[place.Point]
		if !ok {
			t.Errorf("no scene reaches %s", place.Point)
			continue
		}
		for _, mode := range place.Kind.Modes() {
			if s.only == nil || slices.Contains(s.only, mode) {
				all = append(all, end{place, mode, s})
			}
		}
	}
	return all
}

// TestAProcessMayEndAtEveryWriteAndSend ends a process at each place in each mode, restarts it, and checks the results
// of the concurrent work. It fails if a place is not reached. The short form selects some ends by its seed.
//
// Promise: Limits and shares: A process may end before, during or after any write or send without a lost or doubled
// effect.
// How: Every commit, file and message has a name, at which a test build ends itself; afterwards every run ends and
// stores are intact.
func TestAProcessMayEndAtEveryWriteAndSend(t *testing.T) {
	testenv.Nightly(t, "TestKillsLoseNoEffectsOfRun of supervisor, and TestKilledProcessesFinishTheRun of cmd/writ with real processes")
	all := ends(t)
	long := testenv.IsLong()
	if *only != "" {
		wanted := regexp.MustCompile(*only)
		all = slices.DeleteFunc(all, func(e end) bool { return !wanted.MatchString(e.String()) })
	} else if !long {
		all = slices.DeleteFunc(all, func(e end) bool { return e.scene.late })
		random := rand.New(rand.NewPCG(luck(t), 0))
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:nightlySweep]
	}
	w := newCluster(t)
	var table strings.Builder
	rows := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "place\tmode\twho\treached\toutcome")
	reached := 0
	for _, e := range all {
		outcome := w.end(e)
		if outcome == "" {
			reached++
			outcome = "well"
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\t%v\t%s\n", e.place.Point, e.mode, e.scene.victim, outcome != unreached, outcome)
	}
	w.once()
	w.whole()
	rows.Flush()
	t.Logf("%d of %d ends were reached\n%s", reached, len(all), table.String())
}

const unreached = "NOT REACHED"

// end runs one end of a process and returns a description of failures.
func (w *cluster) end(e end) (outcome string) {
	w.t.Helper()
	failed := w.t.Failed()
	begun := time.Now()
	if e.scene.before != nil {
		e.scene.before(w)
	}
	victim, founds := e.scene.victim, false
	switch {
	case victim == newNode:
		victim = w.newNode()
	case victim == newDatacenter:
		victim, founds = w.newDatacenter(), true
	case victim == newOnPostgreSQL:
		victim, founds = w.newDatacenter("--journal", w.postgres()), true
	case !w.Procs[victim].Ended():
		w.Kill(victim)
	}
	w.Launch(victim, e.plan())
	w.victim, w.due, w.reached = victim, e, false
	w.work()
	if e.scene.during != nil {
		e.scene.during(w)
	}
	within := reachWithin
	if e.scene.late {
		within *= 5
	}
	for late := time.Now().Add(within); w.victim != "" && time.Now().Before(late); w.tend() {
		time.Sleep(20 * time.Millisecond)
	}
	if !w.reached {
		w.t.Errorf("%s: %s was not reached:\n%s", e, victim, tail(w.Procs[victim].Said()))
		outcome = unreached
	}
	if w.victim != "" {
		w.victim = ""
		w.restart(victim)
	}
	if founds {
		w.founded(victim)
	}
	w.awaitRuns()
	if outcome == "" && !failed && w.t.Failed() {
		outcome = "FAILED"
	}
	w.t.Logf("%s on %s: %v", e, victim, time.Since(begun).Round(time.Millisecond))
	return outcome
}

func tail(text string) string { return text[max(0, len(text)-2000):] }

// whole checks the integrity of the processes' stores.
func (w *cluster) whole() {
	w.t.Helper()
	for _, name := range append([]string{coordinator, supervisor}, w.nodes...) {
		if p := w.Procs[name]; p != nil && !p.Ended() {
			w.Kill(name)
		}
	}
	paths := append([]string{"cluster/ledger.db", supervisor + "/journal.db"}, w.stores...)
	for _, n := range w.nodes {
		paths = append(paths, n+"/journal.db")
	}
	for _, path := range paths {
		db, err := sql.Open("sqlite", filepath.Join(w.Dir, path))
		if err != nil {
			w.t.Fatal(err)
		}
		defer db.Close()
		var verdict string
		if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
			w.t.Errorf("%s is %s: %v", path, verdict, err)
		}
		if path == paths[0] {
			w.contiguous(db)
		}
	}
}

// contiguous checks that the ledger has all events of each journal once and without gaps, except usage events, which it
// aggregates.
func (w *cluster) contiguous(db *sql.DB) {
	w.t.Helper()
	rows, err := db.Query(`SELECT journal, COUNT(*), COUNT(DISTINCT seq), MIN(seq), MAX(seq), datacenter IN (SELECT datacenter FROM usage)
		FROM events WHERE seq > 0 GROUP BY datacenter, journal`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var journal string
		var n, distinct, first, last int
		var charges bool
		if err := rows.Scan(&journal, &n, &distinct, &first, &last, &charges); err != nil {
			w.t.Fatal(err)
		}
		if n != distinct || n != last-first+1 && !charges {
			w.t.Errorf("the ledger has %d events of journal %s, %d of them different, from %d to %d", n, journal, distinct, first, last)
		}
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
}

// batchID matches the id of a batch in a list.
var batchID = regexp.MustCompile(`[a-z2-7]{13}`)

// Actions of scenes.
var (
	cancelled = func(w *cluster) {
		id := w.submit("slow.tengo", 3, 0, writ.RunCancelled, writ.RunSucceeded)
		w.busy(id, 1)
		w.cancel(id)
	}
	resumed = func(w *cluster) {
		id := w.submit("failing.tengo", 0, 0, writ.RunFailed)
		w.awaitRuns()
		w.insist("run", "resume", "--detach", string(id))
		w.runs = append(w.runs, order{id, []writ.RunState{writ.RunFailed}, 0, 0})
	}
	logRead = func(w *cluster) { w.insist("node", "logs", node, "--dc", supervisor) }
	// decidedTogether cancels several runs with one statement. Some may have ended meanwhile.
	decidedTogether = func(w *cluster) {
		id := w.submit("slow.tengo", 3, 0, writ.RunCancelled, writ.RunSucceeded)
		w.busy(id, 1)
		w.Until("all of them are cancelled", func(context.Context) bool {
			_, said, code := w.try("run", "cancel", "--all", "--dc", supervisor, "--script", "slow.tengo", "--yes")
			return code == 0 || strings.Contains(said, "already")
		})
	}
	tokenMade    = func(w *cluster) { w.insist("token", "create", "--dc", supervisor) }
	tokenRevoked = func(w *cluster) {
		token := w.insist("token", "create", "--dc", supervisor, "--uses", "2")
		w.insist("token", "revoke", strings.Split(token, ".")[1], "--dc", supervisor)
	}
	batchMade    = func(w *cluster) { w.batch("SN-" + w.next()) }
	batchRevoked = func(w *cluster) {
		w.batch("SN-" + w.next())
		list := w.insist("batch", "list", "--dc", supervisor)
		w.insist("batch", "revoke", batchID.FindString(list), "--dc", supervisor)
	}
	// batchUsed joins a node whose machine has the serial number of a batch.
	batchUsed = func(w *cluster) {
		name := w.next()
		w.batch("SN-" + name)
		w.Until("a batch admits a node", func(ctx context.Context) bool {
			ctx, stop := context.WithTimeout(ctx, 5*time.Second) // Join waits for a supervisor that may need a restart
			defer stop()
			m, err := member.Join(ctx, member.Joining{
				Dir: filepath.Join(w.Dir, name), API: &nodes.Client{URL: w.api()}, Cluster: w.Client.Context.Cluster, Name: name, Serial: "SN-" + name,
			})
			return err == nil && m.Admission() == writ.AdmissionApproved
		})
		// It runs no calls, and a restored journal would wait for its report.
		w.insist("node", "remove", "--yes", name, "--dc", supervisor)
	}
	rotated = func(w *cluster) { w.insist("pki", "rotate", "--dc", supervisor) }
	held    = func(w *cluster) {
		w.insist("hold", "--dc", supervisor)
		w.Until("it is released", func(context.Context) bool {
			_, said, code := w.try("release", "--dc", supervisor)
			return code == 0 || strings.Contains(said, "is not on hold") // the response to the release was lost
		})
	}
	cordoned = func(w *cluster) {
		w.insist("node", "cordon", node, "--dc", supervisor)
		w.insist("node", "uncordon", node, "--dc", supervisor)
	}
	// unused adds a node without work, and goneForGood declares it lost while it runs.
	unused = func(w *cluster) {
		name := w.newNode()
		w.begin(name)
		w.insist("node", "cordon", name, "--dc", supervisor)
	}
	goneForGood = func(w *cluster) {
		name := w.nodes[len(w.nodes)-1]
		w.Until(name+" is lost", func(context.Context) bool {
			_, _, code := w.try("node", "lost", "--yes", name, "--dc", supervisor)
			return code == 0
		})
		w.Until(name+" has stopped its resources", func(context.Context) bool { return w.Procs[name].Ended() })
		w.nodes = w.nodes[:len(w.nodes)-1]
	}
	secretSet = func(w *cluster) {
		if err := os.WriteFile(filepath.Join(w.Dir, "value"), []byte("a value"), 0o600); err != nil {
			w.t.Fatal(err)
		}
		w.insist("secret", "set", "password", "--dc", supervisor, "--file", "value")
		w.insist("secret", "remove", "password", "--dc", supervisor)
	}
	rosterMade = func(w *cluster) {
		w.busy(w.submit("slow.tengo", 3, 2, writ.RunSucceeded), 1) // so that a run has to be checked again
		w.insist("project", "add", w.next(), "--no-wait")
	}
	founded = func(w *cluster) {
		name := w.newDatacenter()
		w.begin(name)
		w.founded(name)
	}
	joined = func(w *cluster) {
		w.begin(w.newNode())
	}
	refusedRun = func(w *cluster) {
		name := w.next()
		w.insist("sign", "work.tengo", "--dc", supervisor, "-p", "name="+name, "--destructive", "--deployment", "shop@7", "--output", name+".writ")
		w.Until("a submission is refused", func(ctx context.Context) bool {
			out, said, _ := w.try("submit", name+".writ")
			return strings.Contains(out+said, "CONFLICT")
		})
	}
	// interrupted leaves a job that its node was executing when it was killed.
	interrupted = func(w *cluster) {
		w.busy(w.submit("slow.tengo", 3, 2, writ.RunSucceeded), 1)
	}
	// unclear leaves an interrupted job that must not be repeated.
	unclear = func(w *cluster) {
		w.busy(w.submit("slow.tengo", 3, 2, writ.RunSucceeded), 3)
	}
	restarted = func(name string) func(w *cluster) {
		return func(w *cluster) { w.restart(name) }
	}
	asked = func(w *cluster) {
		w.Until("the coordinator is ready", func(context.Context) bool {
			answer, err := http.Get(w.URL + "/readyz")
			if err != nil {
				return false
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
	}
	emptied = func(w *cluster) {
		w.redis.Kill()
		if err := os.RemoveAll(filepath.Join(w.redis.Dir, "appendonlydir")); err != nil {
			w.t.Fatal(err)
		}
		w.redis.Start()
	}
	// crashed kills the evaluators while work is pending.
	crashed = func(w *cluster) {
		p := w.Procs[supervisor]
		w.Until("it serves", func(context.Context) bool { return strings.Contains(p.Said(), "is listening") })
		still := w.evaluators() // at least one, because the supervisor is ready
		for _, pid := range still {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		w.work()
		time.Sleep(time.Second) // by then a request has reached it
		for _, pid := range still {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	// wentBack restores a journal that lacks the latest run.
	wentBack = func(w *cluster) {
		w.losing(func() {
			w.work()
			w.awaitRuns()
		})
	}
	// wentBackAmid restores a journal that lacks a run on which its node works.
	wentBackAmid = func(w *cluster) {
		w.losing(func() { w.busy(w.submit("slow.tengo", 3, 2, writ.RunSucceeded), 1) })
	}
	// charges creates a charged resource.
	charges = func(w *cluster) {
		w.addMetered()
		id := w.submitTo(metered, "charged.tengo", 0, 0, writ.RunSucceeded)
		w.Until("the end of the charged run", func(ctx context.Context) bool { return ended[string(w.run(ctx, id).State)] })
	}
	// chargesReported also reports the charge at once, as a node does at its start.
	chargesReported = func(w *cluster) {
		charges(w)
		w.restart(meteredNode)
	}
	started = func(name string) func(w *cluster) {
		return func(w *cluster) { w.begin(name) }
	}
	askedToEnd = func(w *cluster) {
		p := w.Procs[supervisor]
		w.Until("it serves", func(context.Context) bool { return strings.Contains(p.Said(), "is listening") })
		_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	}
)

// killing lists the modes for a place that a process needs to start: with a full disk it exits itself.
var (
	killing = []failpoint.Mode{failpoint.Before, failpoint.Torn, failpoint.After}
)

// scenes lead to the places. Each scene also has a run of work.
var scenes = map[failpoint.Point]scene{
	failpoint.StoreUpgraded: {victim: supervisor},

	failpoint.JournalProbed: {victim: supervisor, also: string(failpoint.RunAdvanced) + ":fail"},
	// A supervisor that cannot write its epoch does not start.
	failpoint.EpochBegun:       {victim: supervisor, only: killing},
	failpoint.GenerationBegun:  {victim: supervisor, before: wentBack},
	failpoint.LeaseRenewed:     {victim: newOnPostgreSQL},
	failpoint.LeaseReleased:    {victim: supervisor, during: askedToEnd, only: killing},
	failpoint.EventsConfirmed:  {victim: supervisor},
	failpoint.RosterAdopted:    {victim: supervisor, during: rosterMade},
	failpoint.RunsChecked:      {victim: supervisor, during: rosterMade},
	failpoint.JournalForgotten: {victim: supervisor, late: true},
	failpoint.RunAccepted:      {victim: supervisor},
	failpoint.ResultsTaken:     {victim: supervisor},
	failpoint.RunStopped:       {victim: supervisor, during: cancelled},
	failpoint.RunResumed:       {victim: supervisor, during: resumed},
	failpoint.RunAdvanced:      {victim: supervisor},
	failpoint.EvaluatorDied:    {victim: supervisor, during: crashed},
	failpoint.TokenMade:        {victim: supervisor, during: tokenMade},
	failpoint.TokenRevoked:     {victim: supervisor, during: tokenRevoked},
	failpoint.BatchMade:        {victim: supervisor, during: batchMade},
	failpoint.BatchRevoked:     {victim: supervisor, during: batchRevoked},
	failpoint.NodeBatched:      {victim: supervisor, during: batchUsed},
	failpoint.FloorRaised:      {victim: supervisor, during: rotated},
	failpoint.NodeDecided:      {victim: supervisor, during: cordoned},
	failpoint.HoldDecided:      {victim: supervisor, during: held},
	failpoint.RunsBegun:        {victim: supervisor, during: decidedTogether},
	failpoint.RunsDecided:      {victim: supervisor, during: decidedTogether},
	failpoint.NodeAdmitted:     {victim: supervisor, during: joined},
	failpoint.FenceTaken:       {victim: supervisor, before: unused, during: goneForGood, late: true},
	failpoint.NodesAnnounced:   {victim: supervisor},
	failpoint.ReportTaken:      {victim: supervisor},
	failpoint.SecretSet:        {victim: supervisor, during: secretSet},
	failpoint.SecretRemoved:    {victim: supervisor, during: secretSet},

	failpoint.NodeBegun:     {victim: node, only: killing}, // a node that cannot number its start does not start
	failpoint.JobStarted:    {victim: node},
	failpoint.JobFinished:   {victim: node, nth: 2},
	failpoint.JobRefused:    {victim: node, before: unclear},
	failpoint.AcksKept:      {victim: node},
	failpoint.EpochRaised:   {victim: node, during: restarted(supervisor)},
	failpoint.CancelsKept:   {victim: node, during: cancelled},
	failpoint.JobsForgotten: {victim: node},
	failpoint.NodeProbed:    {victim: node, also: strings.Repeat(string(failpoint.JobFinished)+":fail;", 3) + string(failpoint.JobFinished) + ":fail"},

	failpoint.UsageKept:         {victim: meteredNode, before: (*cluster).addMetered, during: charges},
	failpoint.UsageAcknowledged: {victim: meteredNode, before: charges},

	failpoint.LedgerProbed:           {victim: coordinator, during: asked},
	failpoint.LedgerRoster:           {victim: coordinator, during: rosterMade},
	failpoint.RegistrationsForgotten: {victim: coordinator},
	failpoint.SubmissionKept:         {victim: coordinator},
	failpoint.SubmissionDelivered:    {victim: coordinator},
	failpoint.SubmissionRejected:     {victim: coordinator, during: refusedRun},
	failpoint.RefusalKept:            {victim: supervisor, during: refusedRun},
	failpoint.EventsStored:           {victim: coordinator},
	failpoint.RunRestated:            {victim: coordinator, before: wentBackAmid, during: started(supervisor)},
	failpoint.EventsForgotten:        {victim: coordinator},
	failpoint.RunsForgotten:          {victim: coordinator},
	failpoint.WebhookTold:            {victim: coordinator},

	failpoint.JobSent:            {victim: supervisor, nth: 2},
	failpoint.JobsSent:           {victim: supervisor},
	failpoint.JobsWithdrawn:      {victim: supervisor, during: cancelled},
	failpoint.EpochSent:          {victim: supervisor},
	failpoint.RosterSent:         {victim: supervisor, during: rosterMade},
	failpoint.AcksSent:           {victim: supervisor},
	failpoint.CancelSent:         {victim: supervisor, during: cancelled},
	failpoint.RunsAsked:          {victim: supervisor, before: wentBack},
	failpoint.ResultsDone:        {victim: supervisor},
	failpoint.BeatsDone:          {victim: supervisor},
	failpoint.ReportAcknowledged: {victim: metered, before: (*cluster).addMetered, during: chargesReported},
	failpoint.AccountsApplied:    {victim: supervisor},
	failpoint.GenerationSet:      {victim: supervisor, during: emptied},
	failpoint.ResultsSent:        {victim: node, nth: 2},
	failpoint.BeatSent:           {victim: node, nth: 2},
	failpoint.ReportSent:         {victim: node},
	failpoint.HostSent:           {victim: node},
	failpoint.LoadSent:           {victim: node},
	failpoint.LogAsked:           {victim: supervisor, during: logRead},
	failpoint.LogSent:            {victim: node, during: logRead},
	failpoint.WarningsSent:       {victim: node, also: string(failpoint.JobFinished) + ":fail"}, // logs a warning
	failpoint.ControlsDone:       {victim: node},
	// A single goroutine sends all messages to Redis, so no message can be torn.
	failpoint.TasksMoved: {victim: node, before: interrupted, only: []failpoint.Mode{failpoint.Before, failpoint.After}},

	"link/challenge":     {victim: coordinator},
	"link/hello":         {victim: supervisor},
	"link/welcome":       {victim: coordinator},
	"link/event":         {victim: supervisor},
	"link/ack":           {victim: coordinator},
	"link/req-submit":    {victim: coordinator},
	"link/req-statement": {victim: coordinator, during: cordoned},
	"link/req-roster":    {victim: coordinator, during: rosterMade},
	"link/res":           {victim: supervisor},

	failpoint.SubmissionAnswered: {victim: coordinator},
	failpoint.StatementAnswered:  {victim: coordinator, during: cordoned},
	failpoint.RosterAnswered:     {victim: coordinator, during: rosterMade},
	failpoint.ProofAnswered:      {victim: supervisor, during: joined},
	failpoint.WelcomeAnswered:    {victim: supervisor, during: joined},
	failpoint.RostersAnswered:    {victim: supervisor, during: restarted(node)},
	failpoint.PayloadAnswered:    {victim: supervisor, during: restarted(node)},
	failpoint.AccountAnswered:    {victim: supervisor, during: restarted(node)},
	failpoint.StandingAnswered:   {victim: supervisor, during: restarted(node)},
	failpoint.FenceAnswered:      {victim: supervisor, before: unused, during: goneForGood, late: true},
	failpoint.FencedAnswered:     {victim: supervisor, before: unused, during: goneForGood, late: true},

	failpoint.JournalMade:          {victim: newDatacenter, only: killing},
	failpoint.RegistrationKept:     {victim: coordinator, during: founded},
	failpoint.RegistrationAnswered: {victim: coordinator, during: founded},
	"file/supervisor.key":          {victim: newDatacenter, only: killing},
	"file/journal.mark":            {victim: supervisor},
	"file/supervisor.pub":          {victim: newDatacenter, only: killing},
	"file/roster":                  {victim: newDatacenter, only: killing},

	"file/node.key":         {victim: newNode, only: killing},
	"file/age.key":          {victim: newNode, only: killing},
	"file/member.json":      {victim: newNode, only: killing},
	"file/node.id":          {victim: newNode, only: killing},
	"file/lock":             {victim: supervisor},
	"file/effects.log":      {victim: node, nth: 2},
	"file/record":           {victim: node, nth: 2},
	failpoint.RecordRemoved: {victim: node},
}

// TestTheProgramHasNoPlacesUnlessItIsBuiltForTests searches the released program for failpoints.
func TestTheProgramHasNoPlacesUnlessItIsBuiltForTests(t *testing.T) {
	plain := testcluster.Binary(t)
	program, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, trace := range []string{failpoint.Variable, string(failpoint.EvaluatorDied), string(failpoint.JobFinished)} {
		if strings.Contains(string(program), trace) {
			t.Errorf("the program contains %q", trace)
		}
	}
	// Go records the source files of functions.
	for _, file := range regexp.MustCompile(`internal/failpoint/\w+\.go`).FindAllString(string(program), -1) {
		if file != "internal/failpoint/off.go" {
			t.Errorf("the program contains code of %s", file)
		}
	}
}
