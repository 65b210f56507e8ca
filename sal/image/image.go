// Package image is the image driver. It fetches files over https or from permitted directories of the node, once per
// project and SHA-256 for any number of names. It resumes broken downloads and stores files under their digest. It does
// not know the use of images.
//
// Scripts choose the URLs. So files are read only below directories that the operator configures, servers are contacted
// only at addresses on the internet or in ranges that the operator configures, and errors reveal no other information.
// Each project fetches its own content: that another project has the same content is neither used nor revealed.
//
// Layout: Dir/records/ as package sal writes them. In the tree "images", SHA256.FORMAT are complete images, which
// projects share. SHA256.PROJECT.URL.part is the unfinished file of one project from one URL, with its source in .tag;
// both names are shortened digests. The next fetch removes files of the tree that no record needs.
package image

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/internal/confine"
	"writ/internal/limit"
	"writ/sal"
	"writ/sal/catalog"
)

// Driver is the image driver.
type Driver struct {
	Dir   string    // required: an absolute path, for records
	Trees sal.Trees // required: stores the images
	// MaxBytes limits the disk space of all images together. 0 means a quarter of the disk.
	MaxBytes int64
	// Users are asked before an image is deleted. It may be empty.
	Users []sal.ImageUsers
	// Dirs are absolute paths of directories on this host. Any project may make images from files below them. It may be
	// empty.
	Dirs []string
	// Allow lists address ranges from which images may be fetched, in addition to the internet.
	Allow []netip.Prefix
	// Accounts provides the user for the converter program. The converter runs as the runner's user if unset.
	Accounts *confine.Accounts
	// Log receives the details that scripts must not see. It may be nil.
	Log *slog.Logger
	// Pause is the time before a broken request is repeated; it doubles while no data arrives. 0 means half a second.
	Pause time.Duration
	// Step is called before every single change of the host; tests stop the driver there. It may be nil.
	Step func(name string)

	authorities *x509.CertPool // trusted authorities for servers; nil means the system's
	// lookup and reach replace name servers and networks in tests. They may be nil.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	reach  func(ctx context.Context, dialer *net.Dialer, to netip.AddrPort) (net.Conn, error)
	stall  time.Duration // 0 means the constant stall

	lines limit.Lines // log lines about failed fetches

	mu          sync.Mutex            // guards places
	stemMutexes map[string]*stemMutex // locks in use, by stem: see lock
}

var (
	_ sal.Keeper = (*Driver)(nil)
	_ sal.Images = (*Driver)(nil)
)

// treeName cannot be a writ.ResourceID.HostName.
const treeName = "images"

// own is the driver's part of a record.
type own struct {
	Phase phase  `json:"phase"`
	Dir   string `json:"dir"`             // tree of the images
	Bytes int64  `json:"bytes,omitempty"` // size of the file, once it is complete
}

// phase is the state of an image after a crash.
type phase string

const (
	fetching phase = "fetching" // unfinished files may exist; the next attempt resumes
	ready    phase = "ready"    // the file is complete
	leaving  phase = "leaving"  // like ready, but reserved for deletion until the users were checked
	deleting phase = "deleting" // the file must be removed, unless another image needs it
)

// Describe returns the name and the limits of the driver.
func (d *Driver) Describe() writ.NodeDriver {
	n := writ.NodeDriver{Module: "image", Name: "image", Detail: "https"}
	if len(d.Dirs) > 0 {
		n.Detail += " and files below " + strings.Join(d.Dirs, ", ")
	}
	formats := "raw, qcow2 and OCI archives"
	if _, err := d.converter(); err != nil {
		formats = "raw and OCI archives, but no qcow2: " + writ.AsError(err).Message
	}
	n.Detail += ", each digest once; " + formats + "; together at most " + amount(d.most(filepath.Dir(d.Dir)))
	return n
}

// Image returns a complete image.
func (d *Driver) Image(_ context.Context, project writ.ProjectID, image writ.Ref) (sal.Image, error) {
	request := sal.Request{
		Resource: writ.ResourceID{Project: project, Kind: writ.KindImage, Name: image.Name}, UID: image.UID,
	}
	r, err := d.records().Get(request.Resource)
	if err != nil {
		return sal.Image{}, err
	}
	if r != nil && r.Own.Phase == leaving {
		return sal.Image{}, writ.Errorf(writ.CodeResourceBusy, "%s is being deleted", r.Resource)
	}
	if r == nil || r.Own.Phase != ready {
		return sal.Image{}, sal.Unknown(request.Resource)
	}
	if image.UID != "" {
		if err := r.Owned(request); err != nil {
			return sal.Image{}, err
		}
	}
	c := contentOf(r)
	i := sal.Image{Path: pathOf(r), Format: c.format, SHA256: c.sha256, Bytes: r.Own.Bytes}
	if c.format == "qcow2" {
		i.Format = "raw"
	}
	if _, err := os.Stat(i.Path); errors.Is(err, fs.ErrNotExist) {
		return sal.Image{}, writ.Errorf(writ.CodeDriverRefused, "the file of %s is gone: %s", r.Resource, i.Path).
			WithHint("delete the image and fetch it again")
	}
	return i, nil
}

// Observe reads the record of an image and checks its file.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	state := string(r.Own.Phase)
	if _, err := os.Stat(pathOf(r)); r.Own.Phase == ready && errors.Is(err, fs.ErrNotExist) {
		state = catalog.Gone
	}
	return sal.Observation{Exists: true, UID: r.UID, State: state, Values: d.values(r)}, ctx.Err()
}

// List returns every image that has a record, finished or not.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.records().Resources(ctx)
}

// Do executes an operation on an image.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	get := d.records().Get
	if request.Operation.Effect == catalog.Remove {
		get = func(writ.ResourceID) (*sal.Record[own], error) { return d.records().GetToRemove(request) }
	}
	r, err := get(request.Resource)
	if err != nil {
		return sal.Outcome{}, err
	}
	if r != nil && r.Own.Phase == deleting {
		if err := d.clear(ctx, r); err != nil {
			return sal.Outcome{}, err
		}
		r = nil
	}
	if r != nil && r.Own.Phase == leaving {
		if err := d.reopen(r); err != nil {
			return sal.Outcome{}, err
		}
	}
	switch request.Operation.Effect {
	case catalog.Make:
		return d.fetch(ctx, request, r)
	case catalog.Remove:
		return d.remove(ctx, request, r)
	default:
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the image driver cannot do %s",
			request.Operation.Name())
	}
}

// fetch creates the image or leaves no trace of it. Unfinished files stay only if a server or the runner stopped the
// download, so that the next attempt resumes.
func (d *Driver) fetch(ctx context.Context, request sal.Request, r *sal.Record[own]) (sal.Outcome, error) {
	args, ok := request.Args.(*catalog.ImageFetch)
	if !ok {
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the image driver cannot do %s",
			request.Operation.Name())
	}
	if r != nil && r.Own.Phase == fetching { // does not exist yet; the request may have another digest
		if err := d.supersede(ctx, r, args); err != nil {
			return sal.Outcome{}, err
		}
		r = nil
	}
	if r != nil && r.Owned(request) == nil {
		switch drift, err := drifted(r); {
		case err != nil:
			return sal.Outcome{}, err
		case len(drift) > 0:
			if err := d.discard(ctx, r); err != nil {
				return sal.Outcome{}, err
			}
			r = nil
		}
	}
	r, change, err := r.Make(request, sal.Making[own]{
		Create: func() (*sal.Record[own], error) { return d.create(ctx, request, args) },
		Check:  func() error { return d.sweep(r.Own.Dir) }, // finishes interrupted removals
		Update: func([]string) error { // another URL for the same content
			r.Spec = catalog.Values(request.Args)
			r.Generation++
			return d.records().Put(r)
		},
	})
	if err != nil {
		return sal.Outcome{}, err
	}
	return sal.Outcome{Change: change, Values: d.values(r)}, nil
}

// supersede removes the unfinished files, unless the same content is requested again from the same URL.
func (d *Driver) supersede(ctx context.Context, r *sal.Record[own], args *catalog.ImageFetch) error {
	if c := contentOf(r); c.sha256 == args.SHA256 && c.format == args.Format && c.url == args.URL {
		return nil
	}
	return d.clear(ctx, r)
}

func (d *Driver) create(ctx context.Context, request sal.Request, args *catalog.ImageFetch) (*sal.Record[own], error) {
	if args.Format == "qcow2" {
		if _, err := d.converter(); err != nil { // before gigabytes are fetched
			return nil, err
		}
	}
	if err := d.roomFor(request.Resource); err != nil {
		return nil, err
	}
	dir, err := d.makeTree(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.sweep(dir); err != nil {
		return nil, err
	}
	r := sal.NewRecord[own](request)
	r.Own = own{Phase: fetching, Dir: dir}
	if err := d.records().Put(r); err != nil {
		return nil, err
	}
	if err := d.obtain(ctx, r, request, args); err != nil {
		if isResumable(err) {
			return nil, err
		}
		return nil, errors.Join(err, d.clear(context.WithoutCancel(ctx), r))
	}
	return r, nil
}

// isResumable reports whether the next attempt can resume after this error.
func isResumable(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		writ.CodeOf(err) == writ.CodeUnreachable
}

func (d *Driver) remove(ctx context.Context, request sal.Request, r *sal.Record[own]) (sal.Outcome, error) {
	gone := sal.Outcome{
		Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(request.Resource, request.UID, false)),
	}
	if r == nil {
		return gone, nil
	}
	if r.Own.Phase != fetching { // an unfinished image does not exist
		if err := r.Owned(request); err != nil {
			return sal.Outcome{}, err
		}
		if err := d.closeForUsers(ctx, r); err != nil {
			return sal.Outcome{}, err
		}
		gone.Change = writ.ChangeDeleted
	}
	return gone, d.clear(ctx, r)
}

// closeForUsers prevents new uses of an image, if it has no users. It checks twice: the first time without a visible
// change, in case the image has users.
func (d *Driver) closeForUsers(ctx context.Context, r *sal.Record[own]) error {
	image := sal.Owner{Resource: r.Resource, UID: r.UID}
	if err := sal.UnusedImage(ctx, image, d.Users); err != nil || r.Lost { // no new users: the record is damaged
		return err
	}
	r.Own.Phase = leaving
	if err := d.records().Put(r); err != nil {
		return err
	}
	if err := sal.UnusedImage(ctx, image, d.Users); err != nil {
		return errors.Join(err, d.reopen(r))
	}
	return nil
}

// reopen permits uses of an image again.
func (d *Driver) reopen(r *sal.Record[own]) error {
	r.Own.Phase = ready
	return d.records().Put(r)
}

// clear removes the file of an image, unless another image needs it, and then the record.
func (d *Driver) clear(ctx context.Context, r *sal.Record[own]) error {
	if r.Own.Phase == fetching && !r.Lost {
		return d.clearUnfinished(ctx, r)
	}
	r.Own.Phase = deleting
	if err := d.records().Put(r); err != nil {
		return err
	}
	if r.Lost {
		return d.forget(ctx, r)
	}
	if err := d.collectWith(ctx, r.Own.Dir, contentOf(r)); err != nil {
		return sal.HostError("remove the file of "+r.Resource.String(), err)
	}
	return d.records().Remove(r.Resource)
}

// clearUnfinished removes an image that was never complete. Its files may fill the disk, so that no record can be
// written; therefore the record goes first. If the runner stops in between, the next fetch removes the files.
func (d *Driver) clearUnfinished(ctx context.Context, r *sal.Record[own]) error {
	if err := d.records().Remove(r.Resource); err != nil {
		return err
	}
	if err := d.collectWith(ctx, r.Own.Dir, contentOf(r)); err != nil {
		return sal.HostError("remove the file of "+r.Resource.String(), err)
	}
	return nil
}

// discard removes an image whose file is missing or changed, so that it is fetched again, even if other images share
// the file.
func (d *Driver) discard(ctx context.Context, r *sal.Record[own]) error {
	if err := d.removeDrifted(ctx, r); err != nil {
		return err
	}
	return d.clear(ctx, r)
}

// removeDrifted removes the changed file of an image, unless another project has replaced it with a valid one
// meanwhile.
func (d *Driver) removeDrifted(ctx context.Context, r *sal.Record[own]) error {
	done, err := d.lock(ctx, contentOf(r).sha256)
	if err != nil {
		return err
	}
	defer done()
	if drift, err := drifted(r); err != nil || len(drift) == 0 {
		return err
	}
	d.step("remove the file")
	if err := os.Remove(pathOf(r)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sal.HostError("remove the file of "+r.Resource.String(), err)
	}
	return nil
}

// forget removes an image whose damaged record lacks its digest, and all files that no image needs.
func (d *Driver) forget(ctx context.Context, r *sal.Record[own]) error {
	dir, err := d.tree(ctx)
	if err == nil && dir != "" {
		err = d.sweep(dir)
	}
	if err != nil {
		return err
	}
	return d.records().Remove(r.Resource)
}

// content identifies the content of an image and the project that fetches it.
type content struct {
	project             writ.ProjectID
	url, sha256, format string
}

func contentOf(r *sal.Record[own]) content {
	url, _ := r.Spec["url"].(string)
	sha256, _ := r.Spec["sha256"].(string)
	format, _ := r.Spec["format"].(string)
	return content{r.Resource.Project, url, sha256, format}
}

// pathOf returns the final path of an image.
func pathOf(r *sal.Record[own]) string { return filepath.Join(r.Own.Dir, contentOf(r).file()) }

func (d *Driver) values(r *sal.Record[own]) map[string]any {
	c := contentOf(r)
	return catalog.Values(catalog.Image{
		Identity: catalog.Identify(r.Resource, r.UID, false),
		Path:     pathOf(r),
		SHA256:   c.sha256,
		Format:   c.format,
		SizeMiB:  (r.Own.Bytes + 1<<20 - 1) >> 20,
	})
}

// Keep finishes a deletion and checks the file.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	switch r.Own.Phase {
	case deleting:
		return nil, d.clear(ctx, r)
	case fetching:
		return nil, nil // the caller of the operation repeats it
	case leaving:
		if err := d.reopen(r); err != nil {
			return nil, err
		}
	}
	return drifted(r)
}

// drifted checks the file of a complete image.
func drifted(r *sal.Record[own]) ([]sal.Drift, error) {
	path := pathOf(r)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []sal.Drift{{What: "its file is gone: " + path}}, nil
	case err != nil:
		return nil, sal.HostError("inspect the file of "+r.Resource.String(), err)
	case info.Size() != r.Own.Bytes:
		return []sal.Drift{{What: "its file was changed: " + path}}, nil
	}
	return nil, nil
}

// Orphans returns files in the tree of images that no image needs.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	dir, err := d.tree(ctx)
	if err != nil || dir == "" {
		return nil, err
	}
	files, err := files(dir)
	if err != nil {
		return nil, err
	}
	wanted, err := d.loadNeeded()
	if err != nil {
		return nil, err
	}
	all := sal.DamagedOrphans(wanted.damaged)
	for _, name := range files {
		if !wanted.has(name) {
			path := filepath.Join(dir, name)
			all = append(all, sal.Orphan{Kind: "file", Name: path, Remedy: sal.Command("rm", "-r", path)})
		}
	}
	return all, ctx.Err()
}

func (d *Driver) records() *sal.Records[own] {
	return &sal.Records[own]{Dir: filepath.Join(d.Dir, "records"), Step: d.Step}
}

func (d *Driver) step(name string) {
	if d.Step != nil {
		d.Step(name)
	}
}
