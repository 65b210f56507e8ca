package volume

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"writ"
	"writ/sal"
)

// distant is a driver whose operations copy from another node.
type distant struct {
	*Driver
	origin sal.Origin
}

func (d *distant) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	r.Origin = d.origin
	return d.Driver.Do(ctx, r)
}

// canned is an origin with a prepared archive.
type canned struct {
	sal.Archive
	text []byte
}

// elsewhere returns the origin of a volume of 1 GiB with little content.
func elsewhere(t testing.TB) *canned {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "in", "file"), "from elsewhere")
	text := packed(t, dir)
	return &canned{Archive: sal.Archive{Edition: "first", Bytes: int64(len(text)), SizeGiB: 1}, text: text}
}

func (c *canned) Fetch(ctx context.Context, _ string, to sal.Part) error {
	edition, offset := to.At()
	if edition != c.Edition {
		offset = 0
	}
	if offset == 0 {
		if err := to.Begin(c.Archive); err != nil {
			return err
		}
	}
	if _, err := to.Write(c.text[offset:]); err != nil {
		return err
	}
	return ctx.Err()
}

func (*canned) Done(context.Context, string) {}

// nowhere is an unreachable origin.
type nowhere struct{}

func (nowhere) Fetch(context.Context, string, sal.Part) error {
	return writ.Errorf(writ.CodeUnreachable, "the node does not answer")
}

func (nowhere) Done(context.Context, string) {}

// boastful is an origin that sends more than it announced.
type boastful struct{}

func (boastful) Fetch(_ context.Context, _ string, to sal.Part) error {
	if err := to.Begin(sal.Archive{Edition: "first", Bytes: 2, SizeGiB: 1}); err != nil {
		return err
	}
	to.(*part).length = maxSpread*gib - 1 // as if that much had arrived
	_, err := to.Write([]byte("ab"))
	return err
}

func (boastful) Done(context.Context, string) {}

// copyFrom creates a volume of 1 GiB from an origin.
func (b *fixture) copyFrom(origin sal.Origin) error {
	b.Helper()
	from := map[string]any{"kind": string(writ.KindVolume), "name": "there", "uid": "u9"}
	r := b.request("volume.copy", "copy", map[string]any{"from": from, "size_gib": int64(1)})
	r.Origin = origin
	_, err := b.Do(b.Context(), r)
	return err
}

// A copy that is abandoned before its first byte is never retried, so its record must not stay as a volume.
func TestFailedCopyLeavesNoVolume(t *testing.T) {
	b := plain(t)
	if err := b.copyFrom(nowhere{}); writ.CodeOf(err) != writ.CodeUnreachable {
		t.Fatal(err)
	}
	if all, err := b.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("List = %v, %v", all, err)
	}
	if left, err := os.ReadDir(filepath.Join(b.Dir, "arriving")); err != nil || len(left) > 0 {
		t.Errorf("%v has arrived, %v", left, err)
	}
}

func TestArchiveLengthIsLimitedByItsVolume(t *testing.T) {
	b := plain(t)
	if err := b.copyFrom(boastful{}); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("more than that was taken: %v", err)
	}
}
