package identity

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity/header"
	"writ/identity/sshsig"
)

func TestGoldenTexts(t *testing.T) {
	destructive := testPayload()
	destructive.Targets = []string{"volume/web-0", "volume/data-*", "*"}
	golden(t, "payload-v2.writ", signText(t, testSigner("alice"), sshsig.ScriptNamespace, destructive))
	pruned := prunedPayload()
	golden(t, "payload-prune-v2.writ", signText(t, testSigner("alice"), sshsig.ScriptNamespace, pruned))
	using := testPayload()
	using.Uses = []string{"shop", "mail"}
	golden(t, "payload-uses-v2.writ", signText(t, testSigner("alice"), sshsig.ScriptNamespace, using))
	golden(t, "statement-v2.writ", signText(t, testSigner("alice"), sshsig.StatementNamespace, testStatement()))
	cordon := testStatement()
	cordon.Subject, cordon.Decision = "node/"+nodeID, "cordon"
	golden(t, "statement-node-v2.writ", signText(t, testSigner("alice"), sshsig.StatementNamespace, cordon))
	golden(t, "roster.writ", signRoster(t, testRoster(), "root"))
}

func TestPayloadKeepsItsValues(t *testing.T) {
	p := testPayload()
	p.Plan = writ.DigestOf([]byte("plan"))
	p.Secrets = []string{"api-key@1", "db-password@3"}
	p.Images = []string{"docker.io/library/nginx:1.27@" + imageDigest, "ghcr.io/team/app@" + imageDigest}
	p.Targets = []string{"herodb/store", "volume/web-*"}
	p.Prune, p.Allow = []string{"herodb/store", "volume/web-0"}, append(p.Allow, "herodb.delete", "volume.delete")
	slices.Sort(p.Allow)
	p.Uses = []string{"mail", "shop"}
	p.Deadline = 90 * time.Minute
	text, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	have, err := ParsePayload(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, have); diff != "" {
		t.Error(diff)
	}
	bare := testPayload()
	bare.Deployment, bare.Params, bare.Modules, bare.Secrets, bare.Images, bare.Allow, bare.Script.Text = Deployment{}, nil, nil, nil, nil, nil, []byte{}
	text, err = bare.Text()
	if err != nil {
		t.Fatal(err)
	}
	if have, err = ParsePayload(text); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bare, have); diff != "" {
		t.Error(diff)
	}
}

// prunedPayload returns a payload that deletes two resources at the end of its run.
func prunedPayload() *Payload {
	p := testPayload()
	p.Allow = []string{"container.delete", "volume.create", "volume.delete"}
	p.Targets = []string{"container/old", "volume/spare"}
	p.Prune = []string{"container/old", "volume/spare"}
	return p
}

func TestPrunedResourcesAreCovered(t *testing.T) {
	for name, change := range map[string]func(*Payload){
		"no deployment": func(p *Payload) { p.Deployment = Deployment{} },
		"not listed":    func(p *Payload) { p.Targets = []string{"volume/spare"} },
		"not allowed":   func(p *Payload) { p.Allow = []string{"container.delete"} },
		"a prefix":      func(p *Payload) { p.Prune, p.Targets = []string{"volume/spa*"}, []string{"volume/spa*"} },
		"everything":    func(p *Payload) { p.Prune, p.Targets = []string{"*"}, []string{"*"} },
		"twice":         func(p *Payload) { p.Prune = []string{"volume/spare", "volume/spare"} },
		"no name":       func(p *Payload) { p.Prune = []string{"volume/"} },
	} {
		p := prunedPayload()
		change(p)
		if _, err := p.Text(); writ.CodeOf(err) != writ.CodePayloadMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
	text, err := prunedPayload().Text()
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"unsorted":    strings.Replace(string(text), "prune: container/old\nprune: volume/spare\n", "prune: volume/spare\nprune: container/old\n", 1),
		"before":      strings.Replace(strings.Replace(string(text), "prune: volume/spare\n", "", 1), "destructive:", "prune: volume/spare\ndestructive:", 1),
		"not covered": strings.Replace(string(text), "destructive: container/old ", "destructive: ", 1),
		"empty":       strings.Replace(string(text), "prune: container/old\n", "prune: \n", 1),
	} {
		if _, err := ParsePayload([]byte(bad)); writ.CodeOf(err) != writ.CodePayloadMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUsedDeploymentsAreNamedOnce(t *testing.T) {
	for name, uses := range map[string][]string{
		"itself": {"web"}, "twice": {"shop", "shop"}, "no name": {"Shop!"}, "empty": {""}, "a prefix": {"sh*"},
		"too many": slices.Repeat([]string{"x"}, MaxUses+1),
	} {
		p := testPayload()
		p.Uses = uses
		if _, err := p.Text(); writ.CodeOf(err) != writ.CodePayloadMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := testPayload()
	p.Uses = []string{"mail", "shop"}
	text, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"unsorted": strings.Replace(string(text), "uses: mail\nuses: shop\n", "uses: shop\nuses: mail\n", 1),
		"before":   strings.Replace(strings.Replace(string(text), "uses: shop\n", "", 1), "deployment:", "uses: shop\ndeployment:", 1),
		"itself":   strings.Replace(string(text), "uses: shop\n", "uses: web\n", 1),
	} {
		if _, err := ParsePayload([]byte(bad)); writ.CodeOf(err) != writ.CodePayloadMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPayloadIgnoresTheOrderOfItsLists(t *testing.T) {
	p := testPayload()
	want, _ := p.Text()
	p.Modules[0], p.Modules[1] = p.Modules[1], p.Modules[0]
	p.Allow = []string{"volume.create", "machine.get", "machine.create"}
	p.Created = p.Created.Add(999 * time.Millisecond).In(time.FixedZone("", 3600))
	have, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error(cmp.Diff(string(want), string(have)))
	}
}

// Each case violates one rule of the format, in a text that the writer would never create.
func TestPayloadRefusesMalformedText(t *testing.T) {
	text, err := testPayload().Text()
	if err != nil {
		t.Fatal(err)
	}
	good := string(text)
	line := func(key, value string) string { // replaces a header line
		_, rest, _ := strings.Cut(good, "\n"+key+": ")
		old, _, _ := strings.Cut(rest, "\n")
		return strings.Replace(good, "\n"+key+": "+old+"\n", "\n"+key+": "+value+"\n", 1)
	}
	for name, bad := range map[string]string{
		"empty":                 "",
		"no header end":         strings.ReplaceAll(good, "\n\n", "\n"),
		"other version":         strings.Replace(good, "writ-script: v2", "writ-script: v1", 1),
		"unknown version":       strings.Replace(good, "writ-script: v2", "writ-script: v3", 1),
		"other kind":            strings.Replace(good, "writ-script", "writ-statement", 1),
		"CRLF":                  strings.Replace(good, "\n", "\r\n", 1),
		"two spaces":            strings.Replace(good, "signer: ", "signer:  ", 1),
		"trailing space":        line("signer", "alice "),
		"line missing":          strings.Replace(good, "destructive: -\n", "", 1),
		"line twice":            strings.Replace(good, "destructive: -\n", "destructive: -\ndestructive: -\n", 1),
		"unknown line":          strings.Replace(good, "destructive: -\n", "destructive: -\nforce: yes\n", 1),
		"order":                 strings.Replace(good, "destructive: -\nmax-calls: 200\n", "max-calls: 200\ndestructive: -\n", 1),
		"destructive yes":       line("destructive", "yes"),
		"destructive no":        line("destructive", "no"),
		"destructive unsorted":  line("destructive", "volume/web-1 volume/web-0"),
		"destructive twice":     line("destructive", "volume/web-0 volume/web-0"),
		"destructive short":     line("destructive", "volume/we*"),
		"destructive kind only": line("destructive", "volume/*"),
		"destructive no kind":   line("destructive", "web-0"),
		"destructive middle":    line("destructive", "volume/web*0"),
		"destructive two stars": line("destructive", "volume/web-**"),
		"destructive kinds":     line("destructive", "*/web-0"),
		"destructive case":      line("destructive", "Volume/web-0"),
		"destructive dots":      line("destructive", "volume/../web"),
		"empty value":           line("signer", ""),
		"cluster":               line("cluster", strings.Repeat("A", 64)),
		"datacenter":            line("datacenter", "any"),
		"datacenter upper case": line("datacenter", strings.ToUpper(string(viennaID))),
		"roster 0":              line("roster", "0 "+testDigest().String()),
		"roster +1":             line("roster", "+1 "+testDigest().String()),
		"roster alone":          line("roster", "1"),
		"roster short":          line("roster", "1 "+testDigest().String()[:62]),
		"roster zero digest":    line("roster", "1 "+strings.Repeat("0", 64)),
		"roster upper case":     line("roster", "1 "+strings.ToUpper(testDigest().String())),
		"roster three":          line("roster", "1 "+testDigest().String()+" x"),
		"project id":            line("project", "x web-shop"),
		"project name":          line("project", string(shopID)+" Web"),
		"project words":         line("project", string(shopID)),
		"deployment name":       line("deployment", "Web base 1"),
		"deployment base":       line("deployment", "web base -1"),
		"deployment word":       line("deployment", "web over 1"),
		"signer":                line("signer", "Alice"),
		"time zone":             line("created", "2026-11-21T11:00:00+01:00"),
		"time fraction":         line("created", "2026-11-21T10:00:00.0Z"),
		"expires before":        line("expires", "2026-11-21T10:00:00Z"),
		"expires late":          line("expires", "2026-11-22T10:00:01Z"),
		"deadline form":         line("deadline", "60m"),
		"deadline none":         line("deadline", "0h"),
		"deadline long":         line("deadline", "169h"),
		"deadline fraction":     line("deadline", "1500ms"),
		"nonce short":           line("nonce", "00"),
		"nonce zero":            line("nonce", strings.Repeat("0", 32)),
		"engine":                line("engine", "tengo"),
		"allow order":           line("allow", "machine.get machine.create"),
		"allow twice":           line("allow", "machine.get machine.get"),
		"allow form":            line("allow", "machine"),
		"destructive":           line("destructive", "maybe"),
		"max-calls 0":           line("max-calls", "0"),
		"max-calls many":        line("max-calls", "10001"),
		"params order":          line("params", `{"b":1,"a":1}`),
		"params space":          line("params", `{"a": 1}`),
		"params twice":          line("params", `{"a":1,"a":1}`),
		"params float":          line("params", `{"a":1.5}`),
		"params exponent":       line("params", `{"a":1e3}`),
		"params minus zero":     line("params", `{"a":-0}`),
		"params big":            line("params", `{"a":9007199254740993}`),
		"params null":           line("params", `{"a":null}`),
		"params map":            line("params", `{"a":{}}`),
		"params nested list":    line("params", `{"a":[[1]]}`),
		"params escape":         line("params", `{"a":"\u0041"}`),
		"params surrogate":      line("params", `{"a":"\ud800"}`),
		"params name":           line("params", `{"a b":1}`),
		"params two":            line("params", `{} {}`),
		"params not object":     line("params", `null`),
		"params control":        line("params", "{\"a\":\"\u0085\"}"),
		"module digest":         strings.Replace(good, "export 1", "export 3", 1),
		"module order":          strings.Replace(strings.Replace(good, "lib/fleet@1", "lib/z@1", 1), "", "", 1),
		"module name":           strings.Replace(good, "lib/fleet@1", "lib/\u00fc@1", 1),
		"secret":                line("secret", "db-password"),
		"plan":                  line("plan", strings.Repeat("0", 64)),
		"script size":           strings.Replace(good, "web.tengo 6", "web.tengo 5", 1),
		"script too long":       strings.Replace(good, "web.tengo 6", "web.tengo 96", 1),
		"script negative":       strings.Replace(good, "web.tengo 6", "web.tengo -6", 1),
		"trailing bytes":        good + "x",
		"missing bytes":         good[:len(good)-1],
	} {
		t.Run(name, func(t *testing.T) {
			if bad == good {
				t.Fatal("the case does not change the text")
			}
			_, err := ParsePayload([]byte(bad))
			wantCode(t, err, writ.CodePayloadMalformed)
		})
	}
}

var imageDigest = "sha256:" + strings.Repeat("ab", 32)

func manyImages(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("docker.io/library/nginx:%d@%s", i, imageDigest))
	}
	return all
}

func manySecrets(n int) (all []string) {
	for i := range n {
		all = append(all, SecretRef(fmt.Sprintf("s%d", i), 1))
	}
	return all
}

func TestPayloadTextRefusesUnsignableValues(t *testing.T) {
	long := strings.Repeat("x", header.MaxLine)
	for name, tt := range map[string]struct {
		change func(p *Payload)
		want   writ.Code
	}{
		"script not UTF-8":      {func(p *Payload) { p.Script.Text = []byte("\xff") }, writ.CodePayloadMalformed},
		"script with CR":        {func(p *Payload) { p.Script.Text = []byte("a\r\n") }, writ.CodePayloadMalformed},
		"module with ESC":       {func(p *Payload) { p.Modules[0].Text = []byte("\x1b[2J") }, writ.CodePayloadMalformed},
		"module twice":          {func(p *Payload) { p.Modules[1].Name = p.Modules[0].Name }, writ.CodePayloadMalformed},
		"image without digest":  {func(p *Payload) { p.Images = []string{"docker.io/library/nginx:1.27"} }, writ.CodePayloadMalformed},
		"image in a short form": {func(p *Payload) { p.Images = []string{"nginx:1.27@" + imageDigest} }, writ.CodePayloadMalformed},
		"tag with two digests": {func(p *Payload) {
			p.Images = []string{"docker.io/library/nginx:1.27@" + imageDigest, "docker.io/library/nginx:1.27@sha256:" + strings.Repeat("cd", 32)}
		}, writ.CodePayloadMalformed},
		"images":            {func(p *Payload) { p.Images = manyImages(MaxImages + 1) }, writ.CodePayloadMalformed},
		"secret twice":      {func(p *Payload) { p.Secrets = []string{"a@1", "a@1"} }, writ.CodePayloadMalformed},
		"two versions":      {func(p *Payload) { p.Secrets = []string{"a@1", "a@2"} }, writ.CodePayloadMalformed},
		"secrets":           {func(p *Payload) { p.Secrets = manySecrets(MaxSecrets + 1) }, writ.CodePayloadMalformed},
		"file with a space": {func(p *Payload) { p.Script.Name = "my script" }, writ.CodePayloadMalformed},
		"line feed":         {func(p *Payload) { p.Signer = "alice\nbob" }, writ.CodePayloadMalformed},
		"param of int":      {func(p *Payload) { p.Params["n"] = 1 }, writ.CodePayloadMalformed},
		"param not UTF-8":   {func(p *Payload) { p.Params["n"] = "\xff" }, writ.CodePayloadMalformed},
		"long line":         {func(p *Payload) { p.Allow = []string{long} }, writ.CodePayloadMalformed},
		"long params":       {func(p *Payload) { p.Params["n"] = strings.Repeat("x", header.MaxParams) }, writ.CodeTooLarge},
		"long script":       {func(p *Payload) { p.Script.Text = bytes.Repeat([]byte("x"), header.MaxText) }, writ.CodeTooLarge},
		"far past": {func(p *Payload) {
			p.Created = time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC)
			p.Expires = p.Created.Add(time.Minute)
		}, writ.CodePayloadMalformed},
		"far future": {func(p *Payload) {
			p.Created = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
			p.Expires = p.Created.Add(time.Minute)
		}, writ.CodePayloadMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPayload()
			tt.change(p)
			_, err := p.Text()
			wantCode(t, err, tt.want)
		})
	}
	p := testPayload()
	for i := range header.MaxLine / 4 {
		p.Allow = append(p.Allow, fmt.Sprintf("a.b%d", i))
	}
	_, err := p.Text()
	wantCode(t, err, writ.CodeTooLarge)
	wide := testPayload()
	wide.Params["n"] = strings.Repeat("x", header.MaxParams-1000) // longer than the limit of other lines
	if _, err := wide.Text(); err != nil {
		t.Error(err)
	}
	for _, parse := range []func([]byte) error{
		func(b []byte) error { _, err := ParsePayload(b); return err },
		func(b []byte) error { _, err := ParseStatement(b); return err },
		func(b []byte) error { _, err := ParseRoster(b); return err },
	} {
		wantCode(t, parse(make([]byte, header.MaxText+1)), writ.CodeTooLarge)
	}
}

func TestStatementKeepsItsValues(t *testing.T) {
	token := Token{ID: "aaaaaaaaaaaaa", Pin: testCluster()}
	create := testStatement()
	TokenGrant{ID: token.ID, Key: token.Key(), Role: TokenRoleNode, Expires: noon.Add(TokenValidity), Uses: 7}.Statement(create)
	boot := testStatement()
	TokenGrant{ID: token.ID, Key: token.Key(), Role: TokenRoleBoot, Expires: noon.Add(MaxBootTokenValidity)}.Statement(boot)
	bare := testStatement()
	bare.Reason, bare.Subject, bare.Decision = "", "node/"+nodeID, "drain"
	batch := testStatement()
	var serials []string
	for i := range MaxBatchSerials {
		serials = append(serials, fmt.Sprintf("%0*d", MaxSerial, i)) // maximum length
	}
	Batch{ID: token.ID, Serials: serials, Most: 7, Until: noon.Add(MaxBatchValidity)}.Statement(batch)
	for _, s := range []*Statement{testStatement(), seen(create), seen(boot), seen(bare), seen(batch)} {
		text, err := s.Text()
		if err != nil {
			t.Fatal(err)
		}
		have, err := ParseStatement(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, have); diff != "" {
			t.Error(diff)
		}
	}
}

func TestEveryDecisionOfTheTableCanBeWritten(t *testing.T) {
	for _, rule := range Rules {
		if rule.Namespace != sshsig.StatementNamespace {
			continue
		}
		if _, err := statementOf(rule).Text(); err != nil {
			t.Errorf("%s %s: %v", rule.Kind, rule.Decision, err)
		}
	}
}

func TestStatementWithoutDecisionIsRejected(t *testing.T) {
	grant := func(change func(params map[string]any)) func(s *Statement) {
		return func(s *Statement) {
			TokenGrant{ID: "aaaaaaaaaaaaa", Role: TokenRoleNode, Expires: noon.Add(time.Hour)}.Statement(s)
			change(s.Params)
		}
	}
	set := func(change func(s *Statement)) func(s *Statement) {
		return func(s *Statement) {
			SecretChange{shopID, "db-password", 3, []byte("sealed")}.Statement(s)
			change(s)
		}
	}
	batch := func(change func(params map[string]any)) func(s *Statement) {
		return func(s *Statement) {
			Batch{ID: "aaaaaaaaaaaaa", Serials: []string{"4711", "4712"}, Most: 2, Until: noon.Add(time.Hour)}.Statement(s)
			change(s.Params)
		}
	}
	label := func(set []any, remove ...any) func(s *Statement) {
		return func(s *Statement) {
			s.Subject, s.Decision, s.Params = "node/"+nodeID, DecisionLabel, map[string]any{"set": set, "remove": remove}
		}
	}
	for name, change := range map[string]func(s *Statement){
		"batch without a warning":    batch(func(p map[string]any) { delete(p, "warning") }),
		"batch with another warning": batch(func(p map[string]any) { p["warning"] = "be careful" }),
		"batch without an end":       batch(func(p map[string]any) { delete(p, "until") }),
		"batch that has ended":       batch(func(p map[string]any) { p["until"] = header.FormatTime(noon.Add(-time.Second)) }),
		"batch for too long":         batch(func(p map[string]any) { p["until"] = header.FormatTime(noon.Add(MaxBatchValidity + time.Second)) }),
		"batch for no time":          batch(func(p map[string]any) { p["until"] = "tomorrow" }),
		"batch of nothing":           batch(func(p map[string]any) { p["serials"], p["max"] = []any{}, int64(1) }),
		"batch of no node":           batch(func(p map[string]any) { p["max"] = int64(0) }),
		"batch of too many nodes":    batch(func(p map[string]any) { p["max"] = int64(3) }),
		"batch and more":             batch(func(p map[string]any) { p["force"] = true }),
		"batch with a number twice":  batch(func(p map[string]any) { p["serials"] = []any{"4711", "4711"} }),
		"batch out of order":         batch(func(p map[string]any) { p["serials"] = []any{"4712", "4711"} }),
		"batch with a short number":  batch(func(p map[string]any) { p["serials"] = []any{"471", "4712"} }),
		"batch with a long number":   batch(func(p map[string]any) { p["serials"] = []any{strings.Repeat("4", MaxSerial+1), "5"} }),
		"batch with a space":         batch(func(p map[string]any) { p["serials"] = []any{"4711 ", "4712"} }),
		"batch with a placeholder":   batch(func(p map[string]any) { p["serials"] = []any{"Default string", "SN-1"} }),
		"batch of integers":          batch(func(p map[string]any) { p["serials"] = []any{int64(4711), int64(4712)} }),
		"batch of too many numbers": batch(func(p map[string]any) {
			var all []any
			for i := range MaxBatchSerials + 1 {
				all = append(all, fmt.Sprintf("SN-%06d", i))
			}
			p["serials"] = all
		}),
		"label of nothing":       label(nil),
		"label without a value":  label([]any{"disk"}),
		"label in capitals":      label([]any{"Disk=ssd"}),
		"label with a space":     label([]any{"disk=s s"}),
		"label of a number":      label([]any{int64(3)}),
		"label twice":            label([]any{"disk=ssd", "disk=hdd"}),
		"label removed twice":    label([]any{}, "disk", "disk"),
		"label set and removed":  label([]any{"disk=ssd"}, "disk"),
		"removing no label":      label([]any{}, "disk=ssd"),
		"labels without a list":  func(s *Statement) { label(nil)(s); s.Params["set"] = "disk=ssd" },
		"labels without removal": func(s *Statement) { label([]any{"disk=ssd"})(s); delete(s.Params, "remove") },
		"labels and more":        func(s *Statement) { label([]any{"disk=ssd"})(s); s.Params["force"] = true },
		"too many labels": func(s *Statement) {
			var names []any
			for i := range writ.MaxLabels + 1 {
				names = append(names, fmt.Sprintf("l%d", i))
			}
			label(nil, names...)(s)
		},
		"secret name":            set(func(s *Statement) { s.Subject = "secret/DB" }),
		"secret with a version":  set(func(s *Statement) { s.Subject = "secret/db-password@3" }),
		"secret version":         set(func(s *Statement) { s.Params["version"] = int64(0) }),
		"secret version of text": set(func(s *Statement) { s.Params["version"] = "3" }),
		"secret version high":    set(func(s *Statement) { s.Params["version"] = int64(MaxSecretVersion + 1) }),
		"secret project":         set(func(s *Statement) { s.Params["project"] = "web-shop" }),
		"secret without project": set(func(s *Statement) { delete(s.Params, "project") }),
		"secret without value":   set(func(s *Statement) { delete(s.Params, "sealed") }),
		"secret of nothing":      set(func(s *Statement) { s.Params["sealed"] = "" }),
		"secret in two lines":    set(func(s *Statement) { s.Params["sealed"] = "c2Vh\nbGVk" }),
		"secret loosely encoded": set(func(s *Statement) { s.Params["sealed"] = "c2VhbGV=" }),
		"secret in the open":     set(func(s *Statement) { s.Params["value"] = "x" }),
		"removing with a value":  set(func(s *Statement) { s.Decision = DecisionRemoveSecret }),
		"hold of nothing":        func(s *Statement) { s.Subject, s.Decision = "operation/", DecisionHold },
		"hold of capitals":       func(s *Statement) { s.Subject, s.Decision = "operation/Machine.create", DecisionHold },
		"hold of two operations": func(s *Statement) { s.Subject, s.Decision = "operation/machine.create.x", DecisionHold },
		"hold of a name":         func(s *Statement) { s.Subject, s.Decision = "project/web-shop", DecisionHold },
		"hold of a deployment":   func(s *Statement) { s.Subject, s.Decision = "deployment/Web", DecisionRelease },
		"hold with params": func(s *Statement) {
			s.Subject, s.Decision, s.Params = "operation/machine", DecisionHold, map[string]any{"force": true}
		},
		"unknown decision": func(s *Statement) { s.Decision = "explode" },
		"unknown kind":     func(s *Statement) { s.Subject = "cat/1" },
		"decision of another kind": func(s *Statement) {
			s.Subject, s.Decision = "node/"+nodeID, "cancel"
		},
		"run id":             func(s *Statement) { s.Subject = "run/x" },
		"node id":            func(s *Statement) { s.Subject, s.Decision = "node/web-1", "drain" },
		"two-part id":        func(s *Statement) { s.Subject += "/x" },
		"datacenter":         func(s *Statement) { s.Datacenter = "vienna" },
		"params for nothing": func(s *Statement) { s.Params = map[string]any{"force": true} },
		"reason of two lines": func(s *Statement) {
			s.Reason = "a\nb"
		},
		"reason not UTF-8":        func(s *Statement) { s.Reason = "\xff" },
		"reason after space":      func(s *Statement) { s.Reason = " a" },
		"reason with space":       func(s *Statement) { s.Reason = "a " },
		"reason of a hyphen":      func(s *Statement) { s.Reason = "-" },
		"roster":                  func(s *Statement) { s.Roster = 0 },
		"cluster":                 func(s *Statement) { s.Cluster = "" },
		"token id":                grant(func(map[string]any) {}),
		"token for one":           grant(func(p map[string]any) { p["uses"] = int64(1) }),
		"token for none":          grant(func(p map[string]any) { p["uses"] = int64(0) }),
		"token for too many":      grant(func(p map[string]any) { p["uses"] = int64(writ.MaxTokenUses + 1) }),
		"token for text":          grant(func(p map[string]any) { p["uses"] = "2" }),
		"token for many and more": grant(func(p map[string]any) { p["uses"], p["force"] = int64(2), true }),
		"token key":               grant(func(p map[string]any) { p["key"] = "00" }),
		"token key missing":       grant(func(p map[string]any) { delete(p, "key") }),
		"token role":              grant(func(p map[string]any) { p["role"] = "king" }),
		"boot token for nodes":    grant(func(p map[string]any) { p["role"], p["uses"] = TokenRoleBoot, int64(2) }),
		"boot token late": grant(func(p map[string]any) {
			p["role"], p["expires"] = TokenRoleBoot, header.FormatTime(noon.Add(367*24*time.Hour))
		}),
		"token more":  grant(func(p map[string]any) { p["secret"] = "x" }),
		"token late":  grant(func(p map[string]any) { p["expires"] = header.FormatTime(noon.Add(25 * time.Hour)) }),
		"token early": grant(func(p map[string]any) { p["expires"] = header.FormatTime(noon) }),
		"token time":  grant(func(p map[string]any) { p["expires"] = "tomorrow" }),
	} {
		t.Run(name, func(t *testing.T) {
			s := testStatement()
			change(s)
			if name == "token id" {
				s.Subject = "token/1"
			}
			_, err := seen(s).Text()
			wantCode(t, err, writ.CodePayloadMalformed)
		})
	}
	for name, change := range map[string]func(s *Statement){
		"no format":               func(s *Statement) { s.Format = 0 },
		"format v1":               func(s *Statement) { s.Format = 1 },
		"no digest of the roster": func(s *Statement) { s.RosterDigest = writ.Digest{} },
		"no datacenter name":      func(s *Statement) { s.DatacenterName = "" },
		"datacenter in capitals":  func(s *Statement) { s.DatacenterName = "Vienna" },
		"run without a script":    func(s *Statement) { s.Seen.Name = "" },
		"run without a project":   func(s *Statement) { s.Seen.Project = "" },
		"project without a name":  func(s *Statement) { s.Seen.ProjectName = "" },
		"run with a fingerprint":  func(s *Statement) { s.Seen.Fingerprint = sshsig.Fingerprint(supervisorKey("node")) },
		"cancel with a revision":  func(s *Statement) { s.Seen.Revision = 1 },
		"negative revision":       func(s *Statement) { s.Decision, s.Seen.Revision = "resume", -1 },
		"node without a name":     func(s *Statement) { s.Subject, s.Decision = "node/"+nodeID, "drain"; seen(s).Seen.Name = "" },
		"node without a key":      func(s *Statement) { s.Subject, s.Decision = "node/"+nodeID, "drain"; seen(s).Seen.Fingerprint = "" },
		"node with a short key": func(s *Statement) {
			s.Subject, s.Decision = "node/"+nodeID, "drain"
			seen(s).Seen.Fingerprint = "SHA256:abc"
		},
		"node with a project": func(s *Statement) { s.Subject, s.Decision = "node/"+nodeID, "drain"; seen(s).Seen.Project = shopID },
		"token with a name": func(s *Statement) {
			TokenGrant{ID: "aaaaaaaaaaaaa", Role: TokenRoleNode, Expires: noon.Add(time.Hour)}.Statement(s)
			s.Seen = Seen{Name: "n1"}
		},
		"hold of an operation in a project": func(s *Statement) {
			s.Subject, s.Decision = "operation/machine", DecisionHold
			seen(s).Seen.Project, s.Seen.ProjectName = shopID, "web-shop"
		},
		"hold of a deployment of no project": func(s *Statement) {
			s.Subject, s.Decision = "deployment/web", DecisionHold
			seen(s).Seen.Project = ""
		},
		"hold of a datacenter without a name": func(s *Statement) {
			s.Subject, s.Decision = "datacenter/"+nodeID, DecisionHold
			seen(s).Seen.Name = ""
		},
		"secret of two projects": func(s *Statement) {
			SecretChange{shopID, "db-password", 3, nil}.Statement(s)
			seen(s).Seen.Project = mailID
		},
	} {
		s := testStatement()
		change(s)
		if _, err := s.Text(); writ.CodeOf(err) != writ.CodePayloadMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
	text, _ := testStatement().Text()
	for _, bad := range []string{"web-shop\nfingerprint: -\nrevision: 00\n", "web-shop x\nfingerprint: -\nrevision: 0\n", "web-shop\nfingerprint: -\nrevision: +0\n"} {
		changed := strings.Replace(string(text), "web-shop\nfingerprint: -\nrevision: 0\n", bad, 1)
		if changed == string(text) {
			t.Fatal("the case does not change the text")
		}
		_, err := ParseStatement([]byte(changed))
		wantCode(t, err, writ.CodePayloadMalformed)
	}
	for _, bad := range []string{string(text) + "\n", string(text) + "more: 1\n", strings.TrimSuffix(string(text), "\n"), ""} {
		_, err := ParseStatement([]byte(bad))
		wantCode(t, err, writ.CodePayloadMalformed)
	}
}
