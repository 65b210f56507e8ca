package bootserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/efi/progress"
	"writ/internal/test/testenv"
)

const mac, macName = "52:54:00:77:00:50", "52-54-00-77-00-50"

// fixture is a boot server on loopback with a manual clock.
type fixture struct {
	*Server
	t       *testing.T
	url     string // for machines
	list    string // for operators
	mu      sync.Mutex
	now     time.Time
	image   []byte
	handler http.Handler
	asked   atomic.Int64
	ended   sync.Map // by request number: a channel that is closed when the handler has returned
}

const requestNumber = "Test-Request"

// untilEnded makes do wait for the handler, because a client receives the last byte before the server counts it.
func (f *fixture) untilEnded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ended, asked := f.ended.LoadAndDelete(r.Header.Get(requestNumber)); asked {
			defer close(ended.(chan struct{}))
		}
		h.ServeHTTP(w, r)
	})
}

func newFixture(t *testing.T, change func(c *Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, now: time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC), image: bytes.Repeat([]byte("writ node image\n"), 1<<16)}
	c := Config{Image: f.image, Words: []string{"console=ttyS0", "writ.cluster=" + strings.Repeat("0a", 32)}, Log: slog.New(slog.DiscardHandler), PerSecond: 1e6, Now: f.clock}
	if change != nil {
		change(&c)
	}
	var err error
	if f.Server, err = New(c); err != nil {
		t.Fatal(err)
	}
	f.handler = f.ForMachines()
	machines, operators := httptest.NewServer(f.untilEnded(f.handler)), httptest.NewServer(f.untilEnded(f.ForOperators()))
	t.Cleanup(machines.Close)
	t.Cleanup(operators.Close)
	f.url, f.list = machines.URL, operators.URL
	return f
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fixture) do(method, url, body string, header ...string) (status int, text string, got http.Header) {
	f.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	number, ended := strconv.FormatInt(f.asked.Add(1), 10), make(chan struct{})
	f.ended.Store(number, ended)
	r.Header.Set(requestNumber, number)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	<-ended
	return answer.StatusCode, string(all), answer.Header
}

func (f *fixture) get(path string, header ...string) (int, string, http.Header) {
	f.t.Helper()
	return f.do(http.MethodGet, f.url+path, "", header...)
}

func (f *fixture) report(name string, r progress.Report) int {
	f.t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		f.t.Fatal(err)
	}
	status, _, _ := f.do(http.MethodPost, f.url+progress.Path+name, string(text))
	return status
}

// rows returns the list for operators.
func (f *fixture) rows() []Row {
	f.t.Helper()
	status, text, _ := f.do(http.MethodGet, f.list+ListPath, "")
	var l List
	if err := json.Unmarshal([]byte(text), &l); status != http.StatusOK || err != nil || l.Image != f.Digest() || l.Bytes != int64(len(f.image)) {
		f.t.Fatalf("the list is %d %v: %.300s", status, err, text)
	}
	return l.Machines
}

func (f *fixture) row() Row {
	f.t.Helper()
	all := f.rows()
	if len(all) != 1 {
		f.t.Fatalf("got %d machines: %+v", len(all), all)
	}
	return all[0]
}

// A machine is tracked from its first request until it is a node. If it is silent, the advice names a place to check.
//
// Promise: Machines from an image: An operator sees the progress of each start from a boot server, with times and
// fault texts, from the first request on.
// How: The server records requests and bytes; the first process reports stages after the network is up.
// Also: TestAStageBeginsWithItsFirstReport, TestAMachineThatStartsInVainIsNamed,
// TestStagesAreReportedToABootServerWithoutWaiting, TestTheFirstProcessPreparesAMachine,
// TestABootServerServesASiteAndListsItsMachines, TestABootServerUnderstandsTheLogOfARunner,
// TestAMachineStartsFromABootServer, TestAMachineStartsFromAnImageAsANode.
func TestEachStepOfAStartIsSeenFromTheOtherSide(t *testing.T) {
	f := newFixture(t, nil)
	see := func(step, advice string) {
		t.Helper()
		if r := f.row(); r.MAC != mac || r.Step != step || !strings.Contains(r.Advice, advice) {
			t.Errorf("the row is %+v, want the step %s and %q", r, step, advice)
		}
	}
	if status, text, _ := f.get("/boot/ipxe"); status != http.StatusOK || !strings.HasPrefix(text, "#!ipxe\nchain --replace --autofree "+f.url+"/boot/ipxe?mac=${netX/mac:hexhyp}&") {
		t.Errorf("the first script is %d\n%s", status, text)
	}
	if n := len(f.rows()); n != 0 {
		t.Errorf("%d machines listed without a name, want none", n)
	}

	status, script, _ := f.get("/boot/ipxe?mac=" + macName + "&serial=S%20123&uuid=00000000-0000-0000-0000-000000000000&asset=rack%204")
	image := f.url + "/boot/image/writ-node-" + f.Digest() + ".efi?mac=" + macName
	for _, want := range []string{
		"#!ipxe\n", "\nkernel " + image + " console=ttyS0 writ.cluster=" + strings.Repeat("0a", 32) + " writ.boot=" + f.url + "/boot/report/" + macName + " || goto failed\nboot ",
		"\nchain --replace --autofree " + f.url + "/boot/ipxe?failed=1&mac=" + macName + "&uuid=${uuid}&serial=${serial:uristring}&asset=${asset:uristring} || goto failed\n",
	} {
		if status != http.StatusOK || !strings.Contains(script, want) {
			t.Errorf("the script is %d, without %q:\n%s", status, want, script)
		}
	}
	see(StepScript, "asked for its script 0 s ago")
	if r := f.row(); r.Serial != "S 123" || r.UUID != "" || r.Asset != "rack 4" || r.Starts != 1 || r.Address != "127.0.0.1" {
		t.Errorf("the machine is %+v", r)
	}
	f.pass(21 * time.Second)
	see(StepScript, "but not for the image")

	half := len(f.image) / 2
	path := strings.TrimPrefix(image, f.url)
	if status, text, _ := f.get(path, "Range", fmt.Sprintf("bytes=0-%d", half-1)); status != http.StatusPartialContent || len(text) != half {
		t.Errorf("half of the image is %d, %d bytes", status, len(text))
	}
	see(StepLoading, "0.5 of 1.0 MiB sent")
	f.pass(20 * time.Second)
	see(StepLoading, "no more for 20 s: check its network")
	f.get(path, "Range", fmt.Sprintf("bytes=%d-", half))
	see(StepSent, "image sent 0 s ago")
	f.pass(40 * time.Second)
	see(StepSent, "image sent 40 s ago, no report since")
	if r := f.row(); r.AgeSeconds != 40 || r.SilentSeconds != 40 || r.Image != f.Digest() || r.Sent != int64(len(f.image)) {
		t.Errorf("the machine is %+v", r)
	}

	for _, step := range []struct {
		report progress.Report
		now    string
		later  string
	}{
		{progress.Report{Stage: progress.StageStart, Text: "writ v1"}, "start 0 s ago (writ v1)", "no report since: check its console"},
		{progress.Report{Stage: progress.StageNetwork, Text: "eth0 10.0.0.4/24"}, "has an address for 0 s", "its time servers may not answer"},
		{progress.Report{Stage: progress.StageClock}, "clock 0 s ago", "no report since"},
		{progress.Report{Stage: progress.StageData, Text: "no disk", Failed: true}, "data: no disk", "data: no disk"},
		{progress.Report{Stage: progress.StageRunner, Text: "started"}, "runner for 0 s (started)", "check the address of the supervisor, the route and the clock"},
		{progress.Report{Stage: progress.StageWaits, Node: "n1"}, "waits for an admin", "waits for an admin"},
		{progress.Report{Stage: progress.StageJoined}, "joined 0 s ago", "joined 2 min ago"},
	} {
		if status := f.report(macName, step.report); status != http.StatusNoContent {
			t.Errorf("%+v is answered with %d", step.report, status)
		}
		see(step.report.Stage, step.now)
		f.pass(2 * time.Minute)
		see(step.report.Stage, step.later)
	}
	if r := f.row(); r.Node != "n1" || r.Failed || r.Starts != 0 {
		t.Errorf("the machine is %+v", r)
	}

	f.get("/boot/ipxe?mac=" + macName)
	see(StepScript, "asked for its script 0 s ago")
	if r := f.row(); r.Node != "" || r.Sent != 0 || r.Starts != 1 {
		t.Errorf("data of the previous start: %+v", r)
	}
	for i, often := range []string{"once", "2 times", "3 times", "4 times"} { // visible even while iPXE retries
		f.get(path)
		f.pass(10 * time.Second)
		f.get("/boot/ipxe?failed=1&mac=" + macName + "&serial=S%20123")
		see(StepScript, "iPXE could not load or start the image, "+often+": see its screen")
		f.get(path)
		see(StepSent, "iPXE could not load or start the image, "+often+": see its screen")
		if r := f.row(); r.Serial != "S 123" || r.Failures != i+1 || strings.Contains(r.Advice, "did not join") {
			t.Errorf("the machine is %+v", r)
		}
	}
	f.pass(40 * time.Second)
	see(StepSent, "image sent 40 s ago, no report since")
	f.report(macName, progress.Report{Stage: progress.StageStart})
	see(progress.StageStart, "start 0 s ago")
	if r := f.row(); r.Failures != 0 {
		t.Errorf("%d failures of a started image, want none", r.Failures)
	}
}

// The list marks a machine that starts repeatedly without joining.
func TestAMachineThatStartsInVainIsNamed(t *testing.T) {
	f := newFixture(t, nil)
	for starts := 1; starts <= 5; starts++ {
		f.pass(2 * time.Minute)
		f.get("/boot/ipxe?mac=" + macName)
		f.report(macName, progress.Report{Stage: progress.StageRunner, Text: "started"})
		if r := f.row(); strings.Contains(r.Advice, fmt.Sprintf("It started %d times within %d min and did not join", starts, 2*(starts-1))) != (starts >= 3) {
			t.Errorf("after %d starts the advice is %s", starts, r.Advice)
		}
	}
	f.report(macName, progress.Report{Stage: progress.StageJoined})
	f.get("/boot/ipxe?mac=" + macName)
	if r := f.row(); r.Starts != 1 || strings.Contains(r.Advice, "did not join") {
		t.Errorf("after it joined the machine is %+v", r)
	}
}

// If the kernel panics before it can report, the server only sees repeated downloads of the image.
func TestAMachineThatGetsItsImageAgainAndAgainMayPanic(t *testing.T) {
	f := newFixture(t, nil)
	for range 5 {
		f.get("/boot/ipxe?mac=" + macName)
		f.get(imagePath + ImageName(f.Digest()) + "?mac=" + macName)
		f.pass(90 * time.Second)
	}
	if r := f.row(); !strings.HasSuffix(r.Advice, ". It started 5 times within 7 min and did not join, and sends no reports now: if its console shows that its kernel panics, start another image") {
		t.Errorf("the advice is %s", r.Advice)
	}
}

// A machine that starts from a disk requests no script. Its reports show each start and the end of the previous run.
func TestStartsFromADiskAreCountedAndSayHowTheLastOneEnded(t *testing.T) {
	f := newFixture(t, nil)
	const ended = "the last start of this machine ended with: Kernel panic - not syncing: x"
	for range 4 {
		f.report(macName, progress.Report{Stage: progress.StageStart})
		f.report(macName, progress.Report{Stage: progress.StageStart}) // a retry after a lost answer
		f.report(macName, progress.Report{Stage: progress.StagePanic, Text: ended, Failed: true})
		if r := f.row(); r.Advice != "panic: "+ended && r.Starts < startsInVain {
			t.Errorf("the advice is %s", r.Advice)
		}
		f.report(macName, progress.Report{Stage: progress.StageNetwork})
		f.pass(time.Minute)
	}
	if r := f.row(); r.Starts != 4 || !strings.HasSuffix(r.Advice, "; "+ended+". It started 4 times within 4 min and did not join") {
		t.Errorf("the machine is %+v", r)
	}
	f.report(macName, progress.Report{Stage: progress.StageStart})
	if r := f.row(); r.Ended != "" {
		t.Errorf("end of the previous start: %s", r.Ended)
	}
	f.report(macName, progress.Report{Stage: progress.StagePanic, Text: "twice", Failed: true, Held: true, Next: "start another image"})
	if r := f.row(); !strings.HasPrefix(r.Advice, "held at panic for 0 s: twice. Next: start another image") || r.Ended != "" {
		t.Errorf("the machine is %+v", r)
	}
}

// A failure is listed with its remedy and whether it is held, until the next report.
func TestHeldMachineIsListedWithItsRemedy(t *testing.T) {
	f := newFixture(t, nil)
	failing := progress.Report{Stage: progress.StageRunner, Failed: true, Text: "the token is spent", Next: "make another one"}
	f.report(macName, failing)
	if r := f.row(); r.Advice != "runner: the token is spent. Next: make another one" {
		t.Errorf("the advice is %s", r.Advice)
	}
	f.pass(40 * time.Second)
	failing.Held = true
	f.report(macName, failing)
	if r := f.row(); r.Advice != "held at runner for 40 s: the token is spent. Next: make another one" || !r.Held {
		t.Errorf("the advice is %s", r.Advice)
	}
	f.report(macName, progress.Report{Stage: progress.StageJoined})
	if r := f.row(); r.Held || r.Next != "" || strings.Contains(r.Advice, "token") {
		t.Errorf("a machine that has joined is %+v", r)
	}
}

// Repeated reports of a stage keep the time of the first one.
func TestAStageBeginsWithItsFirstReport(t *testing.T) {
	f := newFixture(t, nil)
	for range 10 {
		f.report(macName, progress.Report{Stage: progress.StageData, Failed: true, Text: "no disk"})
		f.pass(10 * time.Second)
	}
	if r := f.row(); r.AgeSeconds != 100 || r.SilentSeconds != 10 {
		t.Errorf("age = %d s, silent for %d s", r.AgeSeconds, r.SilentSeconds)
	}
}

// Promise: Machines from an image: A boot server sends exactly the bytes of the published digest, whole or in parts,
// and no other file.
// How: The image is in memory, and no request path leads to a file.
func TestAnImageIsSentByItsDigestWholeAndInParts(t *testing.T) {
	f := newFixture(t, nil)
	path := imagePath + ImageName(f.Digest())
	status, text, header := f.get(path)
	sum := sha256.Sum256([]byte(text))
	if status != http.StatusOK || hex.EncodeToString(sum[:]) != f.Digest() || header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("the image is %d, %d bytes, %v", status, len(text), header)
	}
	var parts []byte
	for from := 0; from < len(f.image); from += 300_000 {
		status, part, header := f.get(path, "Range", fmt.Sprintf("bytes=%d-%d", from, from+299_999), "If-Range", header.Get("ETag"))
		if status != http.StatusPartialContent || header.Get("Content-Range") == "" {
			t.Fatalf("a part is %d, %v", status, header)
		}
		parts = append(parts, part...)
	}
	if !bytes.Equal(parts, f.image) {
		t.Error("the parts are another image")
	}
	for _, wrong := range []string{"bytes=99999999-", "bytes=5-2"} {
		if status, _, _ := f.get(path, "Range", wrong); status != http.StatusRequestedRangeNotSatisfiable {
			t.Errorf("the range %s is answered with %d", wrong, status)
		}
	}
	if status, _, _ := f.get(path+"?mac="+macName, "Range", "bytes=0-9,20-29"); status != http.StatusPartialContent || len(f.rows()) != 0 {
		t.Errorf("two ranges at once are %d, and count as %v", status, f.rows())
	}
	if status, text, header := f.do(http.MethodHead, f.url+path+"?mac="+macName, ""); status != http.StatusOK || text != "" || header.Get("Content-Length") != fmt.Sprint(len(f.image)) || len(f.rows()) != 0 {
		t.Errorf("HEAD is %d, %v, and counts as %v", status, header, f.rows())
	}
	for _, other := range []string{
		imagePath + ImageName(strings.Repeat("0", 64)), imagePath + "..%2f..%2fetc%2fpasswd", imagePath + "%2e%2e/ipxe", imagePath, "/", "/boot/", "/etc/passwd",
		ListPath, // served only on the listener for operators
	} {
		if status, text, _ := f.get(other); status != http.StatusNotFound || strings.Contains(text, "root:") {
			t.Errorf("%s is %d: %.80q", other, status, text)
		}
	}
}

// Requests of strangers only change rows, whose number and size are limited and whose texts are printable.
//
// Promise: Machines from an image: Requests of unknown clients change only bounded, sanitised list rows of a boot
// server.
// How: Texts are cleaned and truncated; above 4,096 machines the largest network loses its oldest; requests and
// connections per address are limited.
// Also: TestMachinesThatAreMadeUpPushOutNoOthers, TestAnAddressThatAsksTooOftenIsRefused,
// TestListenerHasPlacesForOtherNetworks, TestAReportIsBoundedAndCanBeShown.
func TestReportsOfStrangersAreBoundedAndPrintable(t *testing.T) {
	f := newFixture(t, nil)
	evil := "\x1b]0;owned\a\u202e\n" + strings.Repeat("x", 2_000)
	f.get("/boot/ipxe?mac=" + macName + "&serial=" + strings.Repeat("%1b", 500) + "&asset=" + strings.Repeat("A", 5_000) + "&uuid=%e2%80%ae")
	if status := f.report(macName, progress.Report{Stage: "data", Failed: true, Text: evil}); status != http.StatusNoContent {
		t.Fatalf("a long text is answered with %d", status)
	}
	r := f.row()
	text, err := json.Marshal(r)
	if err != nil || len(text) > 2_000 || strings.ContainsAny(r.Serial+r.Asset+r.UUID+r.Text+r.Advice, "\x1b\a\n\u202e") {
		t.Errorf("the row has %d bytes: %s", len(text), text)
	}
	before := f.rows()
	for name, body := range map[string]string{
		"no JSON": "stage=clock", "another form": `{"stage": 7}`, "no stage": `{}`, "a stage that is none": `{"stage":"\u001b[2J"}`, "a node that is none": `{"stage":"clock","node":"N 1"}`,
		"too long": `{"stage":"clock","text":"` + strings.Repeat("x", progress.MaxBytes) + `"}`, "empty": "",
	} {
		if status, _, _ := f.do(http.MethodPost, f.url+progress.Path+macName, body); status != http.StatusBadRequest {
			t.Errorf("%s is answered with %d", name, status)
		}
	}
	for _, wrong := range []string{"", "x", "ff-ff-ff-ff-ff-ff", "00-00-00-00-00-00", "52-54-00-77-00-50-11-22", strings.Repeat("5", 2_000)} {
		if status, _, _ := f.get("/boot/ipxe?mac=" + wrong); status != http.StatusBadRequest {
			t.Errorf("the script of %.40q is %d", wrong, status)
		}
		if status := f.report(wrong, progress.Report{Stage: "clock"}); status != http.StatusBadRequest && status != http.StatusNotFound {
			t.Errorf("the report of %.40q is answered with %d", wrong, status)
		}
	}
	for name, header := range map[string][]string{"another name": {"Host", "evil.example.org"}, "a page of another site": {"Origin", "https://evil.example.org"}} {
		if status, _, _ := f.get("/boot/ipxe?mac=52-54-00-77-00-51", header...); status < 400 {
			t.Errorf("%s is answered with %d", name, status)
		}
		if status, _, _ := f.do(http.MethodGet, f.list+ListPath, "", header...); status < 400 {
			t.Errorf("the list for %s is %d", name, status)
		}
	}
	if status, _, _ := f.do(http.MethodDelete, f.list+ListPath, ""); status != http.StatusMethodNotAllowed {
		t.Errorf("DELETE is answered with %d", status)
	}
	if after := f.rows(); len(after) != len(before) || after[0] != before[0] {
		t.Errorf("it was %+v, and is %+v", before, after)
	}
}

func TestAnAddressThatAsksTooOftenIsRefused(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.PerSecond = 2 })
	var statuses []int
	for range 6 {
		status, _, header := f.get("/boot/ipxe?mac=" + macName)
		if statuses = append(statuses, status); status == http.StatusTooManyRequests && header.Get("Retry-After") == "" {
			t.Error("no Retry-After header")
		}
	}
	if statuses[4] != http.StatusOK || statuses[5] != http.StatusTooManyRequests {
		t.Errorf("the requests are answered with %v", statuses)
	}
	f.pass(time.Second)
	if status, _, _ := f.get("/boot/ipxe?mac=" + macName); status != http.StatusOK {
		t.Errorf("a second later it is %d", status)
	}
}

// Rejected requests are logged with one line per error code, so a frequent code hides no other.
func TestRefusalsOfEachCodeAreOneLine(t *testing.T) {
	log := new(testenv.Log)
	f := newFixture(t, func(c *Config) { c.Log = log.Logger() })
	for range 50 {
		f.get("/boot/ipxe?mac=x")
	}
	f.get("/boot/ipxe?mac="+macName, "Host", "evil.example.org")
	f.get("/boot/image/another")
	for _, code := range []writ.Code{writ.CodeBadRequest, writ.CodeHostUnknown, writ.CodeNotFound} {
		if n := log.Lines("code=" + string(code)); n != 1 {
			t.Errorf("%s is %d lines:\n%s", code, n, log)
		}
	}
}

// An address that invents machines displaces only its own machines, not those of other addresses.
func TestMachinesThatAreMadeUpPushOutNoOthers(t *testing.T) {
	table, now := newTable(100), time.Now()
	note := func(mac, remote string) {
		now = now.Add(time.Second)
		table.update(mac, remote, now, func(m *Machine) { m.reach(StepScript, false, "", now) })
	}
	for i := range 10 {
		note(fmt.Sprintf("honest %d", i), fmt.Sprintf("10.0.0.%d:1", i+1))
	}
	for i := range 1_000 {
		note(fmt.Sprintf("made up %d", i), "10.0.0.66:1")
		note("honest 3", "10.0.0.66:1") // speaking for existing machines does not move them to this network
	}
	all := table.list()
	honest := 0
	for _, m := range all {
		if strings.HasPrefix(m.MAC, "honest") {
			honest++
		}
	}
	if len(all) != 100 || honest != 10 || all[0].MAC != "made up 999" {
		t.Errorf("%d machines are known, %d of the honest ones, the newest is %s", len(all), honest, all[0].MAC)
	}
	for i := range 300 { // if all networks have equally few machines, the oldest is dropped
		note(fmt.Sprintf("rack %d", i), fmt.Sprintf("10.1.%d.%d:1", i/100, i%100))
	}
	if all := table.list(); len(all) != 100 || all[0].MAC != "rack 299" || len(table.counts) != 100 {
		t.Errorf("%d machines are known, of %d networks", len(all), len(table.counts))
	}
}

func TestACommandLineThatIPXEUnderstandsInAnotherWayIsRefused(t *testing.T) {
	for _, word := range []string{"||", "&&", "a=${ip}", `a="b"`, "a#b", "a\nboot", `a\b`} {
		if _, err := New(Config{Words: []string{word}}); writ.CodeOf(err) != writ.CodeUsage {
			t.Errorf("%q: %v", word, err)
		}
	}
}

// The script contains the listener's address that the machine reached, unless a URL is configured. Some versions of
// iPXE omit the port in the Host header.
func TestTheScriptHasTheAddressThatTheMachineReached(t *testing.T) {
	f := newFixture(t, nil)
	if _, text, _ := f.get("/boot/ipxe", "Host", "127.0.0.1"); !strings.Contains(text, " "+f.url+"/boot/ipxe?") {
		t.Errorf("without a port the script is\n%s", text)
	}
	f = newFixture(t, func(c *Config) { c.URL = "https://boot.example.org/writ" })
	if _, text, _ := f.get("/boot/ipxe?mac="+macName, "Host", "boot.example.org"); !strings.Contains(text, "kernel https://boot.example.org/writ/boot/image/") || strings.Contains(text, f.url) {
		t.Errorf("with an address the script is\n%s", text)
	}
}

// If the server shuts down during a download, the machine stays listed with the bytes sent so far.
func TestAServerEndsAndMachinesThatLoadAreLeft(t *testing.T) {
	var listeners [2]net.Listener
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(Config{Image: make([]byte, 64<<20), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listeners[0], listeners[1]) }()
	conn, err := net.Dial("tcp", listeners[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s%s?mac=%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", imagePath, ImageName(s.Digest()), macName)
	if _, err := io.CopyN(io.Discard, conn, 1<<20); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
	m := s.List().Machines
	if len(m) != 1 || m[0].Step != StepLoading || m[0].Sent < 1<<20 || m[0].Sent >= 64<<20 {
		t.Errorf("the machines are %+v", m)
	}
}
