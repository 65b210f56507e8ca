package identity

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"writ"
	"writ/identity/header"
	"writ/identity/target"
	"writ/internal/hidden"
	"writ/internal/imageref"
	"writ/internal/lazyregexp"
)

const (
	// MaxDeadline limits the deadline of a run.
	MaxDeadline = 7 * 24 * time.Hour
	// MaxCalls limits the calls of a run.
	MaxCalls = 10_000
	// MaxSecrets limits the secrets of a run.
	MaxSecrets = 64
	// MaxImages limits the images of a run that come from registries.
	MaxImages = 64
	// MaxUses limits the other deployments whose resources a run may change.
	MaxUses = 16
)

// File is a script or module with its text.
type File struct {
	Name string // "web.tengo"; for a module its import path, "lib/fleet@1"
	Text []byte // UTF-8; tab and LF are the only control characters
}

// Digest returns the SHA-256 of the text.
func (f File) Digest() writ.Digest { return writ.DigestOf(f.Text) }

// Deployment identifies the owner of the resources that the revisions of a script create. If it is zero, the project
// owns these resources.
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
	RosterDigest writ.Digest // digest of that version's text
	Project      writ.ProjectID
	ProjectName  string
	Deployment   Deployment
	Uses         []string    // other deployments of the project whose resources the script may change
	Signer       string      // principal in the roster
	Certificate  writ.Digest // of the signing certificate, in FormatV3; otherwise zero
	Created      time.Time   // truncated to seconds
	Expires      time.Time   // latest time of acceptance
	Deadline     time.Duration
	Nonce        Nonce
	Engine       string   // "tengo/2.17.0 api/1"
	Allow        []string // operations that the script may call
	Targets      []string // resources that may be deleted or overwritten, "volume/web-0" or "volume/web-*": see target.Covered
	Prune        []string // the part of Targets that the run deletes at its end, unless the script names them
	MaxCalls     int
	Params       map[string]any // including defaults: string, bool, int64 within ±2^53, and lists of these
	Modules      []File         // all imported modules, sorted by name
	Secrets      []string       // "name@version", each name once
	Images       []string       // full references with digests, "docker.io/library/nginx:1.27@sha256:…", each tag once
	Plan         writ.Digest    // digest of the accepted plan, zero if none
	Script       File
}

var (
	operationPattern = lazyregexp.New(`^[a-z][a-z0-9_]{0,31}\.[a-z][a-z0-9_]{0,31}$`)
	filePattern      = lazyregexp.New(`^[A-Za-z0-9_./@+-]{1,128}$`)
	secretPattern    = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}@[1-9][0-9]{0,8}$`)
	enginePattern    = lazyregexp.New(`^[a-z]+/[0-9]+(\.[0-9]+)* api/[0-9]+$`)
)

// Text returns the exact bytes to sign, with sorted lists and times in whole seconds. The error (PAYLOAD_MALFORMED or
// TOO_LARGE) names the first invalid line.
func (p *Payload) Text() ([]byte, error) {
	w := new(header.Writer)
	modules := slices.SortedFunc(slices.Values(p.Modules), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })

	writeFormat(w, "writ-script", p.Format, FormatV2, FormatV3)
	writeCluster(w, p.Cluster)
	w.Check(writ.ValidUUID(string(p.Datacenter)), "datacenter", "%q is not the id of a datacenter", p.Datacenter)
	w.Line("datacenter", string(p.Datacenter))
	writeRosterSeen(w, p.Roster, p.RosterDigest)
	w.Check(writ.ValidUUID(string(p.Project)), "project", "%q is not the id of a project", p.Project)
	w.Check(writ.ValidName(p.ProjectName), "project", "%q is not the name of a project", p.ProjectName)
	w.Line("project", string(p.Project)+" "+p.ProjectName)
	writeDeployment(w, p.Deployment)
	p.writeUses(w)
	writeSigner(w, p.Signer)
	writeCertificate(w, p.Format, p.Certificate)
	w.Window(p.Created, p.Expires, MaxValidity)
	writeDeadline(w, p.Deadline)
	writeNonce(w, p.Nonce)
	w.Check(enginePattern.MatchString(p.Engine), "engine", "%q does not name an engine like \"tengo/2.17.0 api/1\"",
		p.Engine)
	w.Line("engine", p.Engine)
	w.Set("allow", p.Allow, operationPattern)
	w.Check(len(p.Targets) <= target.Max, "destructive", "%d names; %d are allowed", len(p.Targets), target.Max)
	w.Set("destructive", p.Targets, target.Pattern)
	p.writePrune(w)
	w.Number("max-calls", p.MaxCalls, MaxCalls)
	w.Params(p.Params)
	for i, m := range modules {
		w.Check(i == 0 || modules[i-1].Name != m.Name, "module", "%q is a duplicate", m.Name)
		writeFile(w, "module", m)
	}
	secrets := slices.Sorted(slices.Values(p.Secrets))
	w.Check(len(secrets) <= MaxSecrets, "secret", "%d secrets; %d are allowed", len(secrets), MaxSecrets)
	for i, s := range secrets {
		w.Check(secretPattern.MatchString(s), "secret", "%q does not name a secret like \"db-password@3\"", s)
		w.Check(i == 0 || secretName(secrets[i-1]) != secretName(s), "secret", "%q is a duplicate", secretName(s))
		w.Line("secret", s)
	}
	writeImages(w, p.Images)
	w.Line("plan", header.DigestOrDash(p.Plan))
	writeFile(w, "script", p.Script)

	w.Body([]byte("\n"))
	w.Body(p.Script.Text)
	for _, m := range modules {
		w.Body(m.Text)
	}
	return w.Text()
}

// logOperations lists the operations that only read the output of a resource.
var logOperations = []string{"container.logs", "machine.console"}

// LogsOnly reports whether the script can only read logs of containers and consoles of machines. A run of such a script
// does not change resources, so lists of runs omit it.
func (p *Payload) LogsOnly() bool {
	return len(p.Allow) > 0 && p.Deployment == (Deployment{}) &&
		!slices.ContainsFunc(p.Allow, func(name string) bool { return !slices.Contains(logOperations, name) })
}

// writePrune writes a line for each resource to prune. Each resource must be listed in Targets, and Allow must contain
// the operation that deletes it. A node therefore checks pruning by the same rules as a call of the script.
func (p *Payload) writePrune(w *header.Writer) {
	last := ""
	for _, resource := range slices.Sorted(slices.Values(p.Prune)) {
		kind, name, _ := strings.Cut(resource, "/")
		w.Check(p.Deployment.Name != "", "prune", "%q: only a deployment can be pruned", resource)
		w.Check(target.Pattern.MatchString(resource) && !strings.HasSuffix(resource, "*"), "prune",
			"%q does not name one resource like \"volume/web-0\"", resource)
		w.Check(target.Covered(p.Targets, writ.ResourceKind(kind), name), "prune", "%q is not listed as destructive", resource)
		w.Check(slices.Contains(p.Allow, kind+".delete"), "prune", "%q needs the operation %s.delete", resource, kind)
		w.Check(resource != last, "prune", "%q is a duplicate", resource)
		w.Line("prune", resource)
		last = resource
	}
}

// writeUses writes a line for each other deployment.
func (p *Payload) writeUses(w *header.Writer) {
	w.Check(len(p.Uses) <= MaxUses, "uses", "%d deployments; %d are allowed", len(p.Uses), MaxUses)
	for _, name := range p.Uses {
		w.Check(writ.ValidName(name), "uses", "%q is not a valid name of a deployment", header.Clip(name))
		w.Check(name != p.Deployment.Name, "uses", "%q is the deployment of the script", name)
	}
	w.Lines("uses", p.Uses)
}

func writeDeployment(w *header.Writer, d Deployment) {
	if d != (Deployment{}) {
		w.Check(writ.ValidName(d.Name), "deployment", "%q is not a valid name", d.Name)
		w.Check(d.Base >= 0, "deployment", "the base revision %d is negative", d.Base)
	}
	w.Line("deployment", d.String())
}

func writeImages(w *header.Writer, references []string) {
	w.Check(len(references) <= MaxImages, "image", "%d images; %d are allowed", len(references), MaxImages)
	seen := make(map[string]bool)
	for _, text := range slices.Sorted(slices.Values(references)) {
		w.Check(imageref.IsResolved(text), "image",
			"%q is not a full reference with a digest like \"docker.io/library/nginx:1.27@sha256:…\"", header.Clip(text))
		if r, err := imageref.Parse(text); err == nil {
			tag := r.Tagged().String()
			w.Check(!seen[tag], "image", "%q is a duplicate", tag)
			seen[tag] = true
		}
		w.Line("image", text)
	}
}

func writeDeadline(w *header.Writer, d time.Duration) {
	w.Check(d >= time.Second && d <= MaxDeadline &&
		d%time.Second == 0, "deadline", "%s is not between 1 s and 7 days, in whole seconds", d)
	w.Line("deadline", header.FormatDuration(d))
}

func writeFile(w *header.Writer, key string, f File) {
	w.Check(filePattern.MatchString(f.Name), key,
		"%q is not a valid file name: only letters, digits and _./@+- are allowed", f.Name)
	w.Check(utf8.Valid(f.Text), key, "%s is not UTF-8", f.Name)
	if i := hidden.IndexControl(f.Text); i >= 0 {
		w.Fail(key, "%s has a control character in line %d; tab and LF are the only ones", f.Name,
			1+bytes.Count(f.Text[:i], []byte("\n")))
	}
	w.Line(key, fmt.Sprintf("%s %d %s", f.Name, len(f.Text), f.Digest()))
}

// ParsePayload is the inverse of Text. It rejects every text that Text would not write. The error is PAYLOAD_MALFORMED
// or TOO_LARGE.
func ParsePayload(text []byte) (*Payload, error) {
	if len(text) > header.MaxText {
		return nil, header.TooLarge(len(text), header.MaxText)
	}
	head, body, ok := bytes.Cut(text, []byte("\n\n"))
	if !ok {
		return nil, header.Malformed("the empty line between the header and the script is missing")
	}
	r := header.NewReader(head)
	p := new(Payload)
	p.Format = readFormat(r, "writ-script", FormatV2, FormatV3)
	p.Cluster = writ.ClusterID(r.One("cluster"))
	p.Datacenter = writ.DatacenterID(r.One("datacenter"))
	p.Roster, p.RosterDigest = readRosterSeen(r)
	project := r.Fields(r.One("project"), 2)
	p.Project, p.ProjectName = writ.ProjectID(project[0]), project[1]
	p.Deployment = readDeployment(r)
	p.Uses = r.Many("uses")
	p.Signer = r.One("signer")
	p.Certificate = readCertificate(r, p.Format)
	p.Created = r.Time("created")
	p.Expires = r.Time("expires")
	p.Deadline = r.Duration("deadline")
	p.Nonce = readNonce(r)
	p.Engine = r.One("engine")
	if allow := r.One("allow"); allow != "-" {
		p.Allow = strings.Split(allow, " ")
	}
	if destructive := r.One("destructive"); destructive != "-" {
		p.Targets = strings.Split(destructive, " ")
	}
	p.Prune = r.Many("prune")
	p.MaxCalls = r.Number("max-calls")
	p.Params = r.Params()
	var sizes []int
	for _, m := range r.Many("module") {
		f := r.Fields(m, 3)
		p.Modules = append(p.Modules, File{Name: f[0]})
		sizes = append(sizes, readSize(r, f[1]))
	}
	p.Secrets = r.Many("secret")
	p.Images = r.Many("image")
	p.Plan = r.DigestOrDash("plan")
	script := r.Fields(r.One("script"), 3)
	p.Script.Name = script[0]
	size := readSize(r, script[1])
	r.End()

	p.Script.Text, body = cutFile(r, body, size)
	for i := range p.Modules {
		p.Modules[i].Text, body = cutFile(r, body, sizes[i])
	}
	if err := r.Canonical(text, p.Text); err != nil {
		return nil, err
	}
	return p, nil
}

func readDeployment(r *header.Reader) Deployment {
	value := r.One("deployment")
	if r.Err() != nil || value == "-" {
		return Deployment{}
	}
	f := r.Fields(value, 3)
	base, err := strconv.Atoi(f[2])
	if err != nil {
		r.Fail("%q is not a revision", header.Clip(f[2]))
	}
	return Deployment{Name: f[0], Base: base}
}

// readSize parses the size of a file in bytes.
func readSize(r *header.Reader, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		r.Fail("%q is not a size", header.Clip(s))
		return 0
	}
	return n
}

// cutFile splits body after size bytes, the text of a file.
func cutFile(r *header.Reader, body []byte, size int) (text, rest []byte) {
	if r.Err() != nil {
		return nil, nil
	}
	if size > len(body) {
		r.Fail("the text ends before its files do")
		return nil, nil
	}
	return body[:size:size], body[size:]
}

// Header returns a copy of the payload without texts and parameters. It shares no memory with the payload, so keeping
// it does not keep the texts in memory.
func (p *Payload) Header() *Payload {
	h := *p
	h.Params, h.Modules, h.Script = nil, nil, File{}
	h.Cluster, h.Datacenter, h.Project = clone(p.Cluster), clone(p.Datacenter), clone(p.Project)
	h.ProjectName = clone(p.ProjectName)
	h.Signer = clone(p.Signer)
	h.Engine = clone(p.Engine)
	h.Deployment.Name = clone(p.Deployment.Name)
	h.Allow, h.Targets, h.Secrets, h.Images = clones(p.Allow), clones(p.Targets), clones(p.Secrets), clones(p.Images)
	h.Prune, h.Uses = clones(p.Prune), clones(p.Uses)
	return &h
}

func clone[T ~string](s T) T { return T(strings.Clone(string(s))) }

func clones(list []string) []string {
	copied := slices.Clone(list)
	for i := range copied {
		copied[i] = strings.Clone(copied[i])
	}
	return copied
}
