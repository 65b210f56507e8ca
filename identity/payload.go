package identity

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"writ"
	"writ/internal/hidden"
)

const (
	// MaxDeadline limits the deadline of a run.
	MaxDeadline = 7 * 24 * time.Hour
	// MaxCalls limits the calls of a run.
	MaxCalls = 2000
	// MaxSecrets limits the secrets of a run.
	MaxSecrets = 64
)

// File is a script or module with its text.
type File struct {
	Name string // "web.tengo"; for a module its import path, "lib/fleet@1"
	Text []byte // UTF-8; tab and LF are the only control characters
}

// Digest returns the SHA-256 of the text.
func (f File) Digest() writ.Digest { return writ.DigestOf(f.Text) }

// Deployment identifies the resources that revisions of a script create. For the zero value, the project itself owns
// them.
type Deployment struct {
	Name string
	Base int // revision that the script was planned for, 0 for the first
}

// String returns "web base 12", or "-" for the zero value.
func (d Deployment) String() string {
	if d == (Deployment{}) {
		return "-"
	}
	return fmt.Sprintf("%s base %d", d.Name, d.Base)
}

// Payload is the signed content of a script submission: all inputs of the run.
type Payload struct {
	Format       Format // FormatFor(Certificate) for new payloads
	Cluster      writ.ClusterID
	Datacenter   writ.DatacenterID
	Roster       int         // version known to the signer; a verifier must know at least this one
	RosterDigest writ.Digest // digest of that version's text; zero in FormatV1
	Project      writ.ProjectID
	ProjectName  string
	Deployment   Deployment
	Signer       string      // principal in the roster
	Certificate  writ.Digest // of the signing certificate, in FormatV3; otherwise zero
	Created      time.Time   // truncated to seconds
	Expires      time.Time   // latest time of acceptance
	Deadline     time.Duration
	Nonce        Nonce
	Engine       string   // "tengo/2.17.0 api/1"
	Allow        []string // operations that the script may call
	Destructive  bool     // in FormatV1: operations that delete or overwrite data are permitted
	// Targets lists, from FormatV2, the resources that may be deleted or overwritten, "volume/web-0" or "volume/web-*";
	// see Covered.
	Targets  []string
	MaxCalls int
	Params   map[string]any // including defaults: string, bool, int64 within ±2^53, and lists of these
	Modules  []File         // all imported modules, sorted by name
	Secrets  []string       // "name@version", each name once
	Plan     writ.Digest    // digest of the accepted plan, zero if none
	Script   File
}

var (
	operationPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}\.[a-z][a-z0-9_]{0,31}$`)
	filePattern      = regexp.MustCompile(`^[A-Za-z0-9_./@+-]{1,128}$`)
	secretPattern    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}@[1-9][0-9]{0,8}$`)
	enginePattern    = regexp.MustCompile(`^[a-z]+/[0-9]+(\.[0-9]+)* api/[0-9]+$`)
)

// Text returns the exact bytes to sign, with sorted lists and times in whole seconds. The error (PAYLOAD_MALFORMED or
// TOO_LARGE) names the first invalid line.
func (p *Payload) Text() ([]byte, error) {
	w := new(textWriter)
	modules := slices.SortedFunc(slices.Values(p.Modules), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })

	w.format("writ-script", p.Format)
	w.cluster(p.Cluster)
	w.check(writ.ValidUUID(string(p.Datacenter)), "datacenter", "%q is not the id of a datacenter", p.Datacenter)
	w.line("datacenter", string(p.Datacenter))
	w.roster(p.Format, p.Roster, p.RosterDigest)
	w.check(writ.ValidUUID(string(p.Project)), "project", "%q is not the id of a project", p.Project)
	w.check(writ.ValidName(p.ProjectName), "project", "%q is not the name of a project", p.ProjectName)
	w.line("project", string(p.Project)+" "+p.ProjectName)
	w.deployment(p.Deployment)
	w.principal("signer", p.Signer)
	w.certificate(p.Format, p.Certificate)
	w.window(p.Created, p.Expires, MaxValidity)
	w.deadline(p.Deadline)
	w.nonce(p.Nonce)
	w.check(enginePattern.MatchString(p.Engine), "engine", "%q does not name an engine like \"tengo/2.17.0 api/1\"", p.Engine)
	w.line("engine", p.Engine)
	w.set("allow", p.Allow, operationPattern)
	w.destructive(p)
	w.number("max-calls", p.MaxCalls, 1, MaxCalls)
	w.params(p.Params)
	for i, m := range modules {
		w.check(i == 0 || modules[i-1].Name != m.Name, "module", "%q is a duplicate", m.Name)
		w.file("module", m)
	}
	secrets := slices.Sorted(slices.Values(p.Secrets))
	w.check(len(secrets) <= MaxSecrets, "secret", "%d secrets; %d are allowed", len(secrets), MaxSecrets)
	for i, s := range secrets {
		w.check(secretPattern.MatchString(s), "secret", "%q does not name a secret like \"db-password@3\"", s)
		w.check(i == 0 || secretName(secrets[i-1]) != secretName(s), "secret", "%q is a duplicate", secretName(s))
		w.line("secret", s)
	}
	plan := "-"
	if !p.Plan.IsZero() {
		plan = p.Plan.String()
	}
	w.line("plan", plan)
	w.file("script", p.Script)

	w.b.WriteByte('\n')
	w.b.Write(p.Script.Text)
	for _, m := range modules {
		w.b.Write(m.Text)
	}
	return w.text()
}

func (w *textWriter) deployment(d Deployment) {
	if d != (Deployment{}) {
		w.check(writ.ValidName(d.Name), "deployment", "%q is not a valid name", d.Name)
		w.check(d.Base >= 0, "deployment", "the base revision %d is negative", d.Base)
	}
	w.line("deployment", d.String())
}

func (w *textWriter) deadline(d time.Duration) {
	w.check(d >= time.Second && d <= MaxDeadline && d%time.Second == 0, "deadline", "%s is not between 1 s and 7 days, in whole seconds", d)
	w.line("deadline", formatDuration(d))
}

// set writes words in one line, sorted, or "-" if there are none.
func (w *textWriter) set(key string, words []string, pattern *regexp.Regexp) {
	words = slices.Sorted(slices.Values(words))
	for i, s := range words {
		w.check(pattern.MatchString(s), key, "%q is not allowed here", s)
		w.check(i == 0 || words[i-1] != s, key, "%q is a duplicate", s)
	}
	w.line(key, orDash(strings.Join(words, " ")))
}

// destructive writes the resources that the script may destroy, "-" for none. FormatV1 has only yes or no.
func (w *textWriter) destructive(p *Payload) {
	if p.Format == FormatV1 {
		w.check(len(p.Targets) == 0, "destructive", "the format v1 has no targets")
		w.line("destructive", yesNo(p.Destructive))
		return
	}
	w.check(!p.Destructive, "destructive", "the format v2 names the targets")
	w.check(len(p.Targets) <= MaxTargets, "destructive", "%d names; %d are allowed", len(p.Targets), MaxTargets)
	w.set("destructive", p.Targets, targetPattern)
}

func (w *textWriter) params(params map[string]any) {
	text, err := canonicalJSON(params)
	if err != nil {
		w.fail("params", "%v", err)
		text = []byte("{}")
	}
	w.line("params", string(text))
}

func (w *textWriter) file(key string, f File) {
	w.check(filePattern.MatchString(f.Name), key, "%q is not a valid file name: only letters, digits and _./@+- are allowed", f.Name)
	w.check(utf8.Valid(f.Text), key, "%s is not UTF-8", f.Name)
	if i := bytes.IndexFunc(f.Text, hidden.IsControl); i >= 0 {
		w.fail(key, "%s has a control character in line %d; tab and LF are the only ones", f.Name, 1+bytes.Count(f.Text[:i], []byte("\n")))
	}
	w.line(key, fmt.Sprintf("%s %d %s", f.Name, len(f.Text), f.Digest()))
}

// ParsePayload is the inverse of Text. It rejects every text that Text would not write. The error is PAYLOAD_MALFORMED
// or TOO_LARGE.
func ParsePayload(text []byte) (*Payload, error) {
	if len(text) > MaxText {
		return nil, tooLarge(len(text), MaxText)
	}
	header, body, ok := bytes.Cut(text, []byte("\n\n"))
	if !ok {
		return nil, malformed("the empty line between the header and the script is missing")
	}
	r := newTextReader(header)
	p := new(Payload)
	p.Format = r.format("writ-script")
	p.Cluster = writ.ClusterID(r.one("cluster"))
	p.Datacenter = writ.DatacenterID(r.one("datacenter"))
	p.Roster, p.RosterDigest = r.roster(p.Format)
	project := r.fields(r.one("project"), 2)
	p.Project, p.ProjectName = writ.ProjectID(project[0]), project[1]
	p.Deployment = r.deployment()
	p.Signer = r.one("signer")
	p.Certificate = r.certificate(p.Format)
	p.Created = r.time("created")
	p.Expires = r.time("expires")
	p.Deadline = r.duration("deadline")
	p.Nonce = r.nonce()
	p.Engine = r.one("engine")
	if allow := r.one("allow"); allow != "-" {
		p.Allow = strings.Split(allow, " ")
	}
	if destructive := r.one("destructive"); p.Format == FormatV1 {
		p.Destructive = destructive == "yes"
	} else if destructive != "-" {
		p.Targets = strings.Split(destructive, " ")
	}
	p.MaxCalls = r.number("max-calls")
	p.Params = r.params()
	var sizes []int
	for _, m := range r.many("module") {
		f := r.fields(m, 3)
		p.Modules = append(p.Modules, File{Name: f[0]})
		sizes = append(sizes, r.size(f[1]))
	}
	p.Secrets = r.many("secret")
	if plan := r.one("plan"); r.err == nil && plan != "-" {
		var err error
		if p.Plan, err = writ.ParseDigest(plan); err != nil {
			r.fail("%v", err)
		}
	}
	script := r.fields(r.one("script"), 3)
	p.Script.Name = script[0]
	size := r.size(script[1])
	r.end()

	p.Script.Text, body = r.cut(body, size)
	for i := range p.Modules {
		p.Modules[i].Text, body = r.cut(body, sizes[i])
	}
	if r.err != nil {
		return nil, r.err
	}
	want, err := p.Text()
	if err != nil {
		return nil, err
	}
	if err := same(text, want); err != nil {
		return nil, err
	}
	return p, nil
}

func (r *textReader) deployment() Deployment {
	value := r.one("deployment")
	if r.err != nil || value == "-" {
		return Deployment{}
	}
	f := r.fields(value, 3)
	base, err := strconv.Atoi(f[2])
	if err != nil {
		r.fail("%q is not a revision", clip(f[2]))
	}
	return Deployment{Name: f[0], Base: base}
}

func (r *textReader) duration(key string) time.Duration {
	s := r.one(key)
	d, err := time.ParseDuration(s)
	if err != nil {
		r.fail("a duration such as 30s, 15m or 2h is expected; got %q", clip(s))
	}
	return d
}

func (r *textReader) params() map[string]any {
	s := r.one("params")
	if r.err != nil {
		return nil
	}
	params, err := parseParams([]byte(s))
	if err != nil {
		r.fail("%v", err)
	}
	return params
}

// size parses the size of a file in bytes.
func (r *textReader) size(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		r.fail("%q is not a size", clip(s))
		return 0
	}
	return n
}

// cut splits body after size bytes, the text of a file.
func (r *textReader) cut(body []byte, size int) (text, rest []byte) {
	if r.err != nil {
		return nil, nil
	}
	if size > len(body) {
		r.fail("the text ends before its files do")
		return nil, nil
	}
	return body[:size:size], body[size:]
}

// formatDuration formats a duration as an integer with the largest possible unit of h, m and s.
func formatDuration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	default:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
}
