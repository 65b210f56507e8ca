package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
)

// liar is a coordinator that forwards all requests and changes the answers: a real HTTP server in front of an honest
// one.
type liar struct {
	*httptest.Server
	honest *url.URL

	mu   sync.Mutex
	lie  func(path string, answer any) any // changes an answer, nil for none; a returned problem becomes the response
	hold bool                              // statements are withheld instead of being forwarded
	held [][]byte
}

func newLiar(t *testing.T, honest string) *liar {
	t.Helper()
	u, err := url.Parse(honest)
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{honest: u}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = l.change
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		hold := l.hold && r.URL.Path == "/v1/statements"
		l.mu.Unlock()
		if !hold {
			r.Header.Del("Accept-Encoding")
			proxy.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		l.mu.Lock()
		l.held = append(l.held, body)
		l.mu.Unlock()
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"type":"urn:writ:code:UNREACHABLE","title":"x","status":503,"code":"UNREACHABLE","detail":"later","retryable":true,"request_id":"1"}`)
	}))
	t.Cleanup(l.Close)
	return l
}

// change applies the current lie to a JSON answer.
func (l *liar) change(r *http.Response) error {
	l.mu.Lock()
	lie := l.lie
	l.mu.Unlock()
	if lie == nil || !strings.Contains(r.Header.Get("Content-Type"), "json") {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var answer any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&answer); err != nil {
		return err
	}
	told := lie(r.Request.URL.Path, answer)
	if body, err = json.Marshal(told); err != nil {
		return err
	}
	if problem, is := told.(api.Problem); is {
		r.StatusCode = problem.Status
		r.Header.Set("Content-Type", api.ProblemType)
	}
	switch told.(type) {
	case api.StatementAnswer, api.SignedText:
		r.StatusCode = http.StatusOK
		r.Header.Set("Content-Type", "application/json")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

// keep starts or stops withholding statements, and returns the withheld ones.
func (l *liar) keep(on bool) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.held
	l.hold, l.held = on, nil
	return kept
}

func (l *liar) lies(lie func(path string, answer any) any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie = lie
}

// swap exchanges the fields of two objects: the object whose field by is one, and the object whose field by is other.
func swap(by, one, other string, fields ...string) func(string, any) any {
	return func(_ string, answer any) any {
		var a, b map[string]any
		each(answer, func(o map[string]any) {
			switch o[by] {
			case one:
				a = o
			case other:
				b = o
			}
		})
		if a != nil && b != nil {
			for _, f := range fields {
				a[f], b[f] = b[f], a[f]
			}
		}
		return answer
	}
}

// set changes a field of every object that contains it.
func set(field string, to func(before any) any) func(string, any) any {
	return func(_ string, answer any) any {
		each(answer, func(o map[string]any) {
			if before, has := o[field]; has {
				o[field] = to(before)
			}
		})
		return answer
	}
}

func each(answer any, do func(map[string]any)) {
	switch v := answer.(type) {
	case map[string]any:
		do(v)
		for _, inner := range v {
			each(inner, do)
		}
	case []any:
		for _, inner := range v {
			each(inner, do)
		}
	}
}

func plus(by int) func(any) any {
	return func(before any) any {
		number, _ := before.(json.Number) // zero if the field is absent
		n, _ := number.Int64()
		return n + int64(by)
	}
}

// redirected is a cluster with two subjects for every kind of decision: one for the user to name, and one that the
// coordinator prefers.
type redirected struct {
	*testcluster.Cluster
	runs    map[string]writ.RunID // named, liked, listed
	listed  any                   // the coordinator's list entry for the last one
	prints  map[string]string     // fingerprints as shown on the machines
	counter *int
	wait    func(data, name string) // starts a node with a name, which waits for its approval
}

// admissions maps the fingerprints of the nodes with a name to their admission.
func (r *redirected) admissions(name string) map[string]writ.Admission {
	r.T.Helper()
	all := map[string]writ.Admission{}
	nodes, err := r.Client.Nodes.List(r.T.Context(), api.ListNodesParams{})
	if err != nil {
		r.T.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == name {
			all[n.Key] = n.Admission
		}
	}
	return all
}

// state returns the state of every subject, as an honest coordinator reports it.
func (r *redirected) state() map[string]string {
	r.T.Helper()
	ctx := r.T.Context()
	state := map[string]string{}
	nodes, err := r.Client.Nodes.List(ctx, api.ListNodesParams{})
	if err != nil {
		r.T.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == "witness" {
			continue
		}
		state["node "+n.Name] = fmt.Sprintf("%s %s %s", n.Admission, n.Scheduling, writ.LabelsText(n.Labels))
	}
	runs, err := api.Answer[api.RunPage](r.Client.API.ListRuns(ctx, &api.ListRunsParams{Limit: api.Given(500)}))
	if err != nil {
		r.T.Fatal(err)
	}
	for _, run := range runs.Items {
		state["run "+string(run.ID)] = string(run.State)
	}
	certificates, err := api.Answer[api.CertificateList](r.Client.API.ListCertificates(ctx, &api.ListCertificatesParams{}))
	if err != nil {
		r.T.Fatal(err)
	}
	for _, owner := range certificates.Items {
		for _, c := range owner.Certificates {
			state["datacenter "+owner.Name+" "+c.Of] = c.Floor.String()
		}
	}
	holds, err := api.Answer[api.HoldList](r.Client.API.ListHolds(ctx, &api.ListHoldsParams{}))
	if err != nil {
		r.T.Fatal(err)
	}
	for _, d := range holds.Items {
		for _, h := range client.HoldsOf(d.Holds) {
			state["hold "+h.Text()] = fmt.Sprint(h.Held, h.Revision)
		}
	}
	secrets, err := r.Client.Secrets.List(ctx, "", "")
	if err != nil {
		r.T.Fatal(err)
	}
	for _, d := range secrets {
		for _, s := range d.Secrets {
			state[fmt.Sprintf("secret %s@%d", s.Name, s.Version)] = fmt.Sprint(s.Removed.IsZero())
		}
	}
	return state
}

// typedDecision is a command that a user types.
type typedDecision struct {
	args   []string
	target string // prefix of the subjects that may change
	lies   []string
}

// decisions has a command for each row of identity.Rules, and the subjects that it may change.
var decisions = map[string]typedDecision{
	"node approve":        {[]string{"node", "approve", "named-p", "PRINT:named-p"}, "node named-p", nodeLies},
	"node reject":         {[]string{"node", "reject", "named-p", "PRINT:named-p"}, "node named-p", nodeLies},
	"node remove":         {[]string{"node", "remove", "--yes", "named-n"}, "node named-n", nodeLies},
	"node lost":           {[]string{"node", "lost", "--yes", "named-n"}, "node named-n", nodeLies},
	"node cordon":         {[]string{"node", "cordon", "named-n"}, "node named-n", nodeLies},
	"node uncordon":       {[]string{"node", "uncordon", "named-n"}, "node named-n", nodeLies},
	"node drain":          {[]string{"node", "drain", "named-n"}, "node named-n", nodeLies},
	"node label":          {[]string{"node", "label", "named-n", "a=b"}, "node named-n", nodeLies},
	"run cancel":          {[]string{"run", "cancel", "RUN:named"}, "run RUN:named", runLies},
	"run resume":          {[]string{"run", "resume", "RUN:named", "--detach"}, "run RUN:named", runLies},
	"project cancel-runs": {[]string{"run", "cancel", "--all", "--script", "listed.tengo", "--yes"}, "run RUN:listed", []string{"open runs"}},
	"project resume-runs": {[]string{"run", "resume", "--all", "--script", "listed.tengo", "--yes"}, "run RUN:listed", []string{"listed runs", "scripts", "projects", "ends"}},
	"token revoke":        {[]string{"token", "revoke", "aaaaaaaaaaaaa"}, "token", []string{"nothing"}},
	"token create":        {[]string{"token", "create"}, "token", []string{"nothing"}},
	"batch revoke":        {[]string{"batch", "revoke", "aaaaaaaaaaaaa"}, "batch", []string{"nothing"}},
	"batch create":        {[]string{"batch", "create", "--serials", "value"}, "batch", []string{"nothing"}},
	"datacenter rotate":   {[]string{"pki", "rotate"}, "datacenter", []string{"nothing"}},
	"datacenter hold":     {[]string{"hold", "--dc", "east"}, "hold the datacenter", holdLies},
	"datacenter release":  {[]string{"release", "--dc", "east"}, "hold the datacenter", holdLies},
	"project hold":        {[]string{"hold", "--project", "default"}, "hold the project default", holdLies},
	"project release":     {[]string{"release", "--project", "default"}, "hold the project default", holdLies},
	"deployment hold":     {[]string{"hold", "--deployment", "named"}, "hold the deployment named", holdLies},
	"deployment release":  {[]string{"release", "--deployment", "named"}, "hold the deployment named", holdLies},
	"operation hold":      {[]string{"hold", "--operation", "machine.create"}, "hold the operation machine.create", holdLies},
	"operation release":   {[]string{"release", "--operation", "machine.create"}, "hold the operation machine.create", holdLies},
	"secret set":          {[]string{"secret", "set", "named", "--file", "value"}, "secret named", secretLies},
	"secret remove":       {[]string{"secret", "remove", "named"}, "secret named", secretLies},
}

// byPrefix has decisions about runs for which the user types only a prefix of the id. Without a terminal, the commands
// sign no statement.
var byPrefix = map[string]typedDecision{
	"run cancel prefix": {[]string{"run", "cancel", "PREFIX:named"}, "run RUN:named", prefixLies},
	"run resume prefix": {[]string{"run", "resume", "PREFIX:named", "--detach"}, "run RUN:named", prefixLies},
}

var (
	nodeLies   = []string{"ids", "names", "keys", "whole nodes", "all but the name", "revisions ahead", "revisions behind"}
	runLies    = []string{"runs", "scripts", "projects", "ends"}
	prefixLies = append([]string{"other prefixes", "one prefix"}, runLies...)
	holdLies   = []string{"holds ahead", "holds behind"}
	secretLies = []string{"secrets", "versions ahead", "versions behind"}
)

// lie returns the function that changes answers. pair holds the two nodes that a decision could be about.
func (r *redirected) lie(name string, pair [2]string) func(string, any) any {
	nodes := func(fields ...string) func(string, any) any { return swap("name", pair[0], pair[1], fields...) }
	switch name {
	case "ids":
		return nodes("id")
	case "names":
		return nodes("name")
	case "keys":
		return nodes("key")
	case "whole nodes":
		return nodes("id", "key", "revision", "admission", "scheduling")
	case "all but the name":
		return nodes("id", "revision")
	case "revisions ahead", "revisions behind":
		by := map[string]int{"revisions ahead": 1, "revisions behind": -1}[name]
		return func(_ string, answer any) any {
			each(answer, func(o map[string]any) {
				if o["admission"] != nil {
					o["revision"] = plus(by)(o["revision"])
				}
			})
			return answer
		}
	// The statement is about an existing or a missing hold. The supervisor seems to sign neither.
	case "holds ahead", "holds behind":
		by := map[string]int64{"holds ahead": 1, "holds behind": -1}[name]
		return func(path string, answer any) any {
			if strings.HasSuffix(path, "/holds/standing") {
				return unsupported(nil)
			}
			if path == "/v1/holds" {
				each(answer, func(o map[string]any) {
					if list, is := o["holds"].([]any); is && len(list) == 0 {
						o["holds"] = []any{map[string]any{"held": false, "revision": 7, "decided": []any{}}}
					}
				})
				each(answer, func(o map[string]any) {
					if n, is := o["revision"].(json.Number); is {
						o["revision"] = plus(int(by))(n)
					}
				})
			}
			return answer
		}
	case "runs":
		return func(path string, answer any) any {
			text, _ := json.Marshal(answer)
			if path != "/v1/runs/"+string(r.runs["named"]) {
				return answer
			}
			var other any
			_ = json.Unmarshal(bytes.ReplaceAll(text, []byte(r.runs["named"]), []byte(r.runs["liked"])), &other)
			return other
		}
	// A list contains another run instead of this one, or also reports this one as open.
	case "listed runs", "open runs":
		return func(path string, answer any) any {
			if path != "/v1/runs" {
				return answer
			}
			if name == "open runs" {
				answer = r.listed
			}
			text, _ := json.Marshal(answer)
			text = bytes.ReplaceAll(text, []byte(r.runs["listed"]), []byte(r.runs["liked"]))
			if name == "open runs" {
				text = bytes.ReplaceAll(text, []byte(`"state":"failed"`), []byte(`"state":"running"`))
			}
			var other any
			_ = json.Unmarshal(text, &other)
			return other
		}
	// A list contains the other run under its own id, or under one with the prefix that the user typed.
	case "other prefixes", "one prefix":
		return func(path string, answer any) any {
			if path != "/v1/runs" {
				return answer
			}
			text, _ := json.Marshal(answer)
			id := string(r.runs["liked"])
			if name == "one prefix" {
				id = prefixOf(r.runs["named"]) + id[4:]
			}
			var other any
			_ = json.Unmarshal(bytes.ReplaceAll(text, []byte(r.runs["named"]), []byte(id)), &other)
			return other
		}
	case "scripts":
		return set("script", func(any) any { return "other.tengo" })
	case "projects":
		return set("project_name", func(any) any { return "other" })
	case "ends":
		return set("ended", func(any) any { return "2026-01-01T00:00:00Z" })
	case "secrets":
		return swap("name", "named", "liked", "name")
	case "versions ahead":
		return set("version", plus(1))
	case "versions behind":
		return set("version", plus(-1))
	}
	return nil
}

// A coordinator that changes names, ids, fingerprints, revisions and versions in its answers never gets a statement
// about another subject than the one that the user named. The same holds for a coordinator that withholds statements
// and submits them later in another order.
//
// Promise: Signatures and rosters: Commands show the outcome of a run or statement only with the supervisor's
// signature, and otherwise end with `UNVERIFIED` (exit code 9).
// How: The supervisor signs each outcome, refusal and run end over the SHA-256 of the signed text, and each roster
// adoption over the client's nonce.
// Subtest: what_no_supervisor_signed
// Also: TestOnlyTheSignatureOfTheDatacenterProvesHowARunEnded, TestOnlyAnAnswerToThisTextIsBelieved
//
// Promise: Signatures and rosters: `writ node drain --wait` reports a node as drained only if its supervisor signed
// that state after the command started.
// How: The client requests the node state with a nonce; the supervisor signs id, name, key, admission and scheduling.
// Subtest: what_no_supervisor_signed
// Also: TestNodeStateIsSignedForEachReader
//
// Promise: Signatures and rosters: A command that changes the roster lists the datacenters that have not adopted it.
// How: Each datacenter signs its adoption; commands wait 30 s for all of them, then end with `NOT_ADOPTED`, exit code
// 6.
// Subtest: what_no_supervisor_signed
//
// Promise: Signatures and rosters: A coordinator cannot redirect a decision to another subject or to a later state of
// the same subject.
// How: A statement contains id, name, project, key and revision as its signer saw them; the supervisor compares them
// in the deciding transaction.
// Also: TestDecisionBindsToSeenState
//
// Promise: Signatures and rosters: A coordinator that hides one of two nodes with the same name cannot cause a
// decision about the other node.
// How: Without a fingerprint from the signer, the supervisor must have signed that the node is admitted; an admitted
// node owns its name.
// Subtest: two_that_wait_under_one_name.
func TestAHostileCoordinatorRedirectsNoDecision(t *testing.T) {
	t.Parallel()
	for _, rule := range identity.Rules {
		if _, has := decisions[rule.Kind+" "+rule.Decision]; rule.Namespace == sshsig.StatementNamespace && !has {
			t.Errorf("the rule %s %s has no case here", rule.Kind, rule.Decision)
		}
	}
	r := newRedirected(t)
	l := newLiar(t, r.URL)
	r.AlsoAt(l.URL)
	typed := maps.Clone(decisions)
	maps.Copy(typed, byPrefix)
	for _, name := range slices.Sorted(maps.Keys(typed)) {
		d := typed[name]
		pair := [2]string{"named-n", "liked-n"}
		if strings.Contains(strings.Join(d.args, " "), "named-p") {
			pair = [2]string{"named-p", "liked-p"}
		}
		t.Run(name, func(t *testing.T) {
			in := *r
			in.Cluster = r.In(t)
			in.onlyTargetChanges(in.words(d.args), in.words([]string{d.target})[0], func() {
				for _, lie := range d.lies {
					l.lies(in.lie(lie, pair))
					_, said, code := in.Try(append(in.words(d.args), "--server", l.URL)...)
					l.lies(nil)
					// The end of a run is signed only for a resume.
					if signed := lie != "nothing" && lie != "ends"; signed && code == 0 {
						t.Errorf("%s: it was done\n%s", lie, said)
					}
				}
			})
		})
	}
	t.Run("later and in another order", func(t *testing.T) { r.reorder(t, l) })
	t.Run("two that wait under one name", func(t *testing.T) { r.twins(t, l) })
	t.Run("what no supervisor signed", func(t *testing.T) { r.unproved(t, l) })
}

// words replaces placeholders by values of the running cluster.
func (r *redirected) words(args []string) []string {
	var all []string
	for _, a := range args {
		for name, id := range r.runs {
			a = strings.ReplaceAll(a, "RUN:"+name, string(id))
			a = strings.ReplaceAll(a, "PREFIX:"+name, prefixOf(id))
		}
		for name, print := range r.prints {
			a = strings.ReplaceAll(a, "PRINT:"+name, print)
		}
		all = append(all, a)
	}
	return all
}

// prefixOf returns the shortest prefix of a run's id that a user may type.
func prefixOf(id writ.RunID) string { return string(id[:client.MinPrefix]) }

// onlyTargetChanges fails the test if do changes the state of another subject than target.
func (r *redirected) onlyTargetChanges(what []string, target string, do func()) {
	r.T.Helper()
	before := r.state()
	do()
	r.awaitEvents()
	after := r.state()
	for subject, was := range before {
		if is := after[subject]; is != was && !strings.HasPrefix(subject, target) {
			r.T.Errorf("writ %s changed %s from %q to %q", strings.Join(what, " "), subject, was, is)
		}
	}
}

// awaitEvents waits until the coordinator has received all decisions of the datacenter. Events arrive in order, and it
// adds a label as the last one.
func (r *redirected) awaitEvents() {
	r.T.Helper()
	*r.counter++
	mark := fmt.Sprintf("m%d", *r.counter)
	r.Writ("node", "label", "witness", "mark="+mark)
	r.Until("the coordinator knows of the mark", func(ctx context.Context) bool {
		nodes, err := r.Client.Nodes.List(ctx, api.ListNodesParams{})
		for _, n := range nodes {
			if n.Name == "witness" && n.Labels["mark"] == mark {
				return err == nil
			}
		}
		return false
	})
}

func newRedirected(t *testing.T) *redirected {
	t.Helper()
	r := &redirected{Cluster: testcluster.New(t), runs: map[string]writ.RunID{}, prints: map[string]string{}, counter: new(int)}
	broker := testenv.Redis(t).URL
	nodeAPI := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	r.Add(testcluster.Datacenter{Name: "east", Redis: broker, Listen: nodeAPI, Nodes: 0, Speed: "0"})
	cluster := string(r.Client.Context.Cluster)
	print := regexp.MustCompile(`SHA256:[A-Za-z0-9+/]{43}`)
	r.wait = func(data, name string) {
		p := r.Start(data, "writ node approve "+name, "runner", "--data", data, "--name", name, "--supervisor", "http://"+nodeAPI,
			"--redis", broker, "--cluster", cluster, "--drivers", "simulated", "--simulate-speed", "0")
		r.prints[data] = print.FindString(p.Said())
		r.Until(data+" waits to be admitted", func(context.Context) bool { return r.admissions(name)[r.prints[data]] == writ.AdmissionPending })
	}
	for _, name := range []string{"witness", "named-n", "liked-n", "named-p", "liked-p"} {
		r.wait(name, name)
		if !strings.HasSuffix(name, "-p") {
			r.Writ("node", "approve", name, r.prints[name])
		}
	}
	r.Script("fails.tengo", "import(\"run\").fail(\"enough\")\n")
	r.Script("value", "a value")
	for _, name := range []string{"named", "liked"} {
		r.Writ("secret", "set", name, "--file", "value")
		r.fails(name, "fails.tengo")
	}
	r.Script("listed.tengo", "import(\"run\").fail(\"enough\")\n")
	r.fails("listed", "listed.tengo")
	listed := r.Writ("run", "list", "--script", "listed.tengo", "-o", "json")
	if err := json.Unmarshal([]byte(listed), &r.listed); err != nil {
		t.Fatal(err)
	}
	r.Writ("secret", "set", "liked", "--file", "value")
	r.Writ("node", "label", "named-n", "a=a") // so that the revisions of the two differ
	return r
}

// fails submits a script and waits until its run has failed.
func (r *redirected) fails(name, script string) {
	r.runs[name] = r.Submit(script)
	r.Until("run "+name+" has failed", func(ctx context.Context) bool {
		run, err := r.Client.Runs.Get(ctx, r.runs[name])
		return err == nil && run.State == api.RunStateFailed
	})
}

// reorder withholds each decision, makes another one about the same subject, and then submits the withheld one.
func (r *redirected) reorder(t *testing.T, l *liar) {
	in := *r
	in.Cluster = r.In(t)
	for _, step := range []struct {
		args, then []string
		exit       int // of the later command
	}{
		{
			[]string{"node", "label", "named-p", "a=b", "--fingerprint", "PRINT:named-p"}, []string{"node", "label", "named-p", "a=c", "--fingerprint", "PRINT:named-p"},
			writ.ExitDone,
		},
		{[]string{"secret", "set", "liked", "--file", "value"}, []string{"secret", "set", "liked", "--file", "value"}, writ.ExitDone},
		{[]string{"secret", "remove", "liked"}, []string{"secret", "set", "liked", "--file", "value"}, writ.ExitDone},
		{[]string{"hold", "--dc", "east"}, []string{"hold", "--dc", "east"}, writ.ExitDone},
		{[]string{"release", "--dc", "east"}, []string{"hold", "--dc", "east"}, writ.ExitDone},
		{[]string{"hold", "--project", "default"}, []string{"release", "--dc", "east"}, writ.ExitDone},
		{[]string{"node", "cordon", "witness"}, []string{"node", "drain", "witness"}, writ.ExitDone},
		{[]string{"node", "drain", "witness"}, []string{"node", "uncordon", "witness"}, writ.ExitDone},
		{[]string{"node", "uncordon", "witness"}, []string{"node", "cordon", "witness"}, writ.ExitDone},
		{[]string{"node", "remove", "--yes", "witness"}, []string{"node", "uncordon", "witness"}, writ.ExitDone},
		{[]string{"node", "reject", "liked-p", "PRINT:liked-p"}, []string{"node", "approve", "liked-p", "PRINT:liked-p"}, writ.ExitDone},
		{[]string{"run", "resume", "RUN:liked", "--detach"}, []string{"run", "resume", "RUN:liked"}, writ.ExitFailed},
	} {
		l.keep(true)
		in.Try(append(in.words(step.args), "--server", l.URL)...)
		kept := l.keep(false)
		if len(kept) == 0 {
			t.Errorf("%v: no statement was withheld", step.args)
			continue
		}
		in.again(step.exit, in.words(step.then)...)
		for _, signed := range kept {
			_, err := api.Answer[api.StatementAnswer](in.Client.API.SubmitStatementWithBody(t.Context(), api.SignedType, bytes.NewReader(signed)))
			if writ.CodeOf(err) != writ.CodeConflict {
				t.Errorf("%v, handed in after %v: %v", step.args, step.then, err)
			}
		}
	}
}

// again repeats a command until it ends with the expected exit code. After a CONFLICT it decides again, as a user does:
// the list of the coordinator may be older than the last decisions of the datacenter, for example when a draining node
// becomes drained.
func (r *redirected) again(exit int, args ...string) {
	r.T.Helper()
	r.Until(strings.Join(args, " "), func(context.Context) bool {
		out, said, code := r.Try(args...)
		if code != exit && code != writ.ExitConflict {
			r.T.Fatalf("writ %s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, exit, out, said)
		}
		return code == exit
	})
}

// twins adds a waiting node of a stranger with the name of another node. A coordinator that hides one of them, or swaps
// their keys, cannot cause a rejection of the honest key.
func (r *redirected) twins(t *testing.T, l *liar) {
	in := *r
	in.Cluster = r.In(t)
	r.wait("honest", "twin")
	r.wait("stranger", "twin")
	honest, stranger := r.prints["honest"], r.prints["stranger"]
	hides := func(key string) func(string, any) any {
		return func(_ string, answer any) any {
			each(answer, func(o map[string]any) {
				if items, is := o["items"].([]any); is {
					o["items"] = slices.DeleteFunc(items, func(item any) bool { n, is := item.(map[string]any); return is && n["key"] == key })
				}
			})
			return answer
		}
	}
	for what, tt := range map[string]struct {
		lie  func(string, any) any
		args []string
		exit int
	}{
		"hides the stranger":          {hides(stranger), []string{"twin"}, writ.ExitUsage},
		"hides the one that is meant": {hides(stranger), []string{"twin", "--fingerprint", stranger}, writ.ExitNotFound},
		"exchanges the keys":          {swap("key", honest, stranger, "key"), []string{"twin", "--fingerprint", stranger}, writ.ExitConflict},
	} {
		for _, decision := range []string{"reject", "remove", "lost"} {
			l.lies(tt.lie)
			out, said, code := in.Try(append(append([]string{"node", decision}, tt.args...), "--server", l.URL)...)
			l.lies(nil)
			if code != tt.exit {
				t.Errorf("%s, %s: exit %d, want %d\n%s%s", what, decision, code, tt.exit, out, said)
			}
		}
	}
	in.again(writ.ExitDone, "node", "reject", "twin", stranger)
	in.again(writ.ExitDone, "node", "approve", "twin", honest)
	in.awaitEvents()
	want := map[string]writ.Admission{honest: writ.AdmissionApproved, stranger: writ.AdmissionRejected}
	if got := in.admissions("twin"); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	l.lies(set("admission", func(any) any { return writ.AdmissionRemoved }))
	if out, said, code := in.Try("node", "lost", "--yes", "liked-n", "--server", l.URL); code != writ.ExitUsage || !strings.Contains(said, "is not known to be removed") {
		t.Errorf("lost with a working node reported as removed: exit %d\n%s%s", code, out, said)
	}
	l.lies(hides(honest)) // a decision about the admitted node does not affect the other one
	defer l.lies(nil)
	for _, args := range [][]string{{"cordon", "twin"}, {"drain", "twin"}, {"uncordon", "twin"}, {"label", "twin", "disk=ssd"}, {"remove", "twin", "--yes"}, {"lost", "twin", "--yes"}} {
		if out, said, code := in.Try(append([]string{"node", "--server", l.URL}, args...)...); code != writ.ExitUsage {
			t.Errorf("%v, and the node that serves is hidden: exit %d, want %d\n%s%s", args, code, writ.ExitUsage, out, said)
		}
	}
}
