// Package image is the image driver. It fetches files over https or from permitted directories of the node. Images of a
// project that have the same SHA-256 are fetched once. The driver resumes broken downloads, and stores files under
// their digest. It is independent of the use of images.
//
// Scripts choose the URLs. So files are read only below directories that the operator configures, servers are contacted
// only at addresses on the internet or in ranges that the operator configures, and errors do not reveal which other
// files and servers exist. Each project fetches all its content itself, even if another project has the same content.
// Otherwise, a fast fetch would reveal that the other project has the content.
//
// Layout: Dir/records/ contains the records in the format of package sal. In the tree "images", SHA256.FORMAT is a
// complete image. Projects that have fetched the same content share the file. SHA256.PROJECT.URL.part is the unfinished
// file of one project from one URL, where PROJECT and URL are shortened digests. A file with the ending .tag contains
// the URL and ETag of its bytes. The next fetch removes files of the tree that no record needs.
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
	// Users list the resources that use an image. An image is deleted only if no resource uses it. The list may be empty.
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
	// Step is called before every single change of the host; tests can stop the driver there. It may be nil.
	Step func(name string)

	authorities *x509.CertPool // trusted authorities for servers; nil means the authorities of the system
	// lookup and reach replace name servers and networks in tests. They may be nil.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	reach  func(ctx context.Context, dialer *net.Dialer, to netip.AddrPort) (net.Conn, error)
	stall  time.Duration // replaces the constant stall, unless it is 0

	lines limit.Lines // log lines about failed fetches
	// locks guards files by their stems, and the tree by its name. A digest, which all projects share, is locked only for
	// moments.
	locks sal.Locks
}

var (
	_ sal.Keeper = (*Driver)(nil)
	_ sal.Images = (*Driver)(nil)
)

// Describe returns the name and the limits of the driver.
func (d *Driver) Describe() writ.NodeDriver {
	n := writ.NodeDriver{Module: "image", Name: "image", Detail: "https"}
	if len(d.Dirs) > 0 {
		n.Detail += " and files below " + strings.Join(d.Dirs, ", ")
	}
	formats := "raw, qcow2 and OCI archives"
	if _, err := findConverter(d.Accounts); err != nil {
		formats = "raw and OCI archives, but no qcow2: " + writ.AsError(err).Message
	}
	n.Detail += ", each digest once; " + formats
	if most, err := d.budget().most(filepath.Dir(d.Dir)); err == nil {
		n.Detail += "; together at most " + amount(most)
	}
	return n
}

// Image returns a complete image.
func (d *Driver) Image(_ context.Context, project writ.ProjectID, image writ.Ref) (sal.Image, error) {
	request := sal.Request{
		Resource: writ.ResourceID{Project: project, Kind: writ.KindImage, Name: image.Name}, UID: image.UID,
	}
	r, err := d.store().records.Get(request.Resource)
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
	r, err := d.store().records.Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	state := string(r.Own.Phase)
	if _, err := os.Stat(pathOf(r)); r.Own.Phase == ready && errors.Is(err, fs.ErrNotExist) {
		state = catalog.Gone
	}
	return sal.Observation{Exists: true, UID: r.UID, State: state, Values: valuesOf(r)}, ctx.Err()
}

// List returns every image that has a record, finished or not.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.store().records.Resources(ctx)
}

// Do executes an operation on an image.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	j := d.job(request)
	r, err := j.recovered(ctx)
	if err != nil {
		return sal.Outcome{}, err
	}
	switch request.Operation.Effect {
	case catalog.Make:
		return j.fetch(ctx, r)
	case catalog.Remove:
		return j.remove(ctx, r)
	default:
		return sal.Outcome{}, j.unable()
	}
}

// Keep finishes or undoes an interrupted deletion, and checks the file.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	r, err := d.store().records.Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	j := d.job(sal.Request{Resource: resource, UID: r.UID})
	switch r.Own.Phase {
	case deleting:
		return nil, j.clear(ctx, r)
	case fetching:
		return nil, nil // the caller of the operation repeats it
	case leaving:
		if err := j.reopen(r); err != nil {
			return nil, err
		}
	}
	return drifted(r)
}

// Orphans returns files in the tree of images that no image needs.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	dir, err := d.store().find(ctx)
	if err != nil || dir == "" {
		return nil, err
	}
	unneeded, damaged, err := d.store().unneeded(dir)
	if err != nil {
		return nil, err
	}
	all := sal.DamagedOrphans(damaged)
	for _, name := range unneeded {
		path := filepath.Join(dir, name)
		all = append(all, sal.Orphan{Kind: "file", Name: path, Remedy: sal.Command("rm", "-r", path)})
	}
	return all, ctx.Err()
}

func (d *Driver) store() store {
	return store{&sal.Records[own]{Dir: filepath.Join(d.Dir, "records"), Step: d.step}, d.Trees, &d.locks, d.step}
}

func (d *Driver) budget() budget { return budget{d.MaxBytes, d.store()} }

func (d *Driver) step(name string) {
	if d.Step != nil {
		d.Step(name)
	}
}
