package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"writ"
	"writ/internal/ociarchive"
	"writ/sal"
	"writ/sal/catalog"
)

// fetch creates the image. If it fails, it removes the unfinished files. It keeps them if the server cannot be reached
// or the runner stops, so that the next attempt resumes.
func (j *job) fetch(ctx context.Context, r *record) (sal.Outcome, error) {
	args, ok := j.Args.(*catalog.ImageFetch)
	if !ok {
		return sal.Outcome{}, j.unable()
	}
	if r != nil && r.Own.Phase == fetching { // the image does not exist yet, and the request may name another digest
		if err := j.supersede(ctx, r, args); err != nil {
			return sal.Outcome{}, err
		}
		r = nil
	}
	if r != nil && r.Owned(j.Request) == nil {
		switch drift, err := drifted(r); {
		case err != nil:
			return sal.Outcome{}, err
		case len(drift) > 0:
			if err := j.discard(ctx, r); err != nil {
				return sal.Outcome{}, err
			}
			r = nil
		}
	}
	r, change, err := r.Make(j.Request, sal.Making[own]{
		Create: func() (*record, error) { return j.create(ctx, args) },
		Check:  func() error { return j.store.sweep(r.Own.Dir) }, // finishes interrupted removals
		Update: func([]string) error { // another URL for the same content
			r.Spec = catalog.Values(j.Args)
			r.Generation++
			return j.store.records.Put(r)
		},
	})
	if err != nil {
		return sal.Outcome{}, err
	}
	return sal.Outcome{Change: change, Values: valuesOf(r)}, nil
}

// supersede removes the unfinished files, unless the same content is requested again from the same URL.
func (j *job) supersede(ctx context.Context, r *record, args *catalog.ImageFetch) error {
	if c := contentOf(r); c.sha256 == args.SHA256 && c.format == args.Format && c.url == args.URL {
		return nil
	}
	return j.clear(ctx, r)
}

// discard removes an image whose file is missing or changed, so that it is fetched again, even if other images share
// the file.
func (j *job) discard(ctx context.Context, r *record) error {
	if err := j.store.removeDrifted(ctx, r); err != nil {
		return err
	}
	return j.clear(ctx, r)
}

func (j *job) create(ctx context.Context, args *catalog.ImageFetch) (*record, error) {
	if args.Format == "qcow2" {
		if _, err := findConverter(j.Accounts); err != nil { // before gigabytes are fetched
			return nil, err
		}
	}
	if err := j.budget().checkCount(j.Resource); err != nil {
		return nil, err
	}
	dir, err := j.store.create(ctx)
	if err != nil {
		return nil, err
	}
	if err := j.store.sweep(dir); err != nil {
		return nil, err
	}
	r := sal.NewRecord[own](j.Request)
	r.Own = own{Phase: fetching, Dir: dir}
	if err := j.store.records.Put(r); err != nil {
		return nil, err
	}
	if err := j.obtain(ctx, r, args); err != nil {
		if isResumable(err) {
			return nil, err
		}
		return nil, errors.Join(err, j.clear(context.WithoutCancel(ctx), r))
	}
	return r, nil
}

// isResumable reports whether the next attempt can resume after this error.
func isResumable(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		writ.CodeOf(err) == writ.CodeUnreachable
}

// obtain makes the file of an image available and records it. Concurrent calls for the same content in one project wait
// for the first. A file of another project is not reused: the content is fetched again and replaces that file.
func (j *job) obtain(ctx context.Context, r *record, args *catalog.ImageFetch) error {
	c := contentOf(r)
	unlock, err := j.locks.Take(ctx, c.stem())
	if err != nil {
		return err
	}
	defer unlock()
	if has, err := j.store.has(c); err != nil {
		return err
	} else if has {
		err := j.store.publish(ctx, r, "")
		if !errors.Is(err, fs.ErrNotExist) { // otherwise the file was removed meanwhile
			j.Progress("the project already has this content on the node")
			return sal.HostError("find the image", err)
		}
	}
	p := j.part(r, args)
	if err := p.download(ctx, j.origin(p)); err != nil {
		return sal.HostError("fetch "+j.Resource.String(), err)
	}
	from, err := j.finish(ctx, p)
	if err == nil {
		err = j.store.publish(ctx, r, from)
	}
	if err == nil {
		err = p.remove()
	}
	return sal.HostError("store "+j.Resource.String(), err)
}

// part returns the unfinished file of an image.
func (j *job) part(r *record, args *catalog.ImageFetch) *part {
	name, tag, made := contentOf(r).begun()
	return &part{
		reporter: &reporter{call: j.Request, args: args, log: j.Log, lines: &j.lines}, budget: j.budget(), step: j.step,
		to: filepath.Join(r.Own.Dir, name), tag: filepath.Join(r.Own.Dir, tag), made: filepath.Join(r.Own.Dir, made),
	}
}

// origin returns the origin that the URL names: a file of this node, or a server.
func (j *job) origin(p *part) origin {
	if strings.HasPrefix(p.args.URL, "file:") {
		return &localFile{part: p, dirs: j.Dirs}
	}
	return newServer(j.Driver, p)
}

// finish verifies the format of the fetched file, converts it if necessary, and returns the path of the result.
func (j *job) finish(ctx context.Context, p *part) (from string, err error) {
	from = p.to
	switch p.args.Format {
	case "raw":
		err = checkRaw(p.to)
	case "oci":
		p.tell("checking the archive")
		err = checkArchive(ctx, p.to)
	case "qcow2":
		p.tell("converting the disk")
		from = p.made
		c := conversion{p, j.Accounts}
		err = c.withinLimit(ctx, c.run)
	}
	if err != nil {
		return "", err
	}
	j.step("close the file")
	return from, os.Chmod(from, 0o400)
}

// checkArchive rejects files that are not complete OCI archives.
func checkArchive(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return ociarchive.Check(ctx, f)
}
