package volume

import (
	"context"
	"path/filepath"
	"testing"

	"writ/sal"
)

// distant is a driver that is to copy from another node, whatever it is asked for.
type distant struct {
	*Driver
	origin sal.Origin
}

func (d *distant) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	r.Origin = d.origin
	return d.Driver.Do(ctx, r)
}

// canned is an origin that has an archive at hand.
type canned struct {
	sal.Archive
	text []byte
}

// elsewhere is the origin of a volume of 1 GiB with little in it.
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
