// Package deb extracts files from Debian packages without dpkg and without running scripts. The caller selects the
// files. The package does not authenticate packages: apt does that when it downloads them.
package deb

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// The format of a package: an ar(5) archive whose member data.tar holds the files and whose member control.tar holds
// the metadata.
const (
	magic      = "!<arch>\n"
	headerSize = 60
	headerEnd  = "`\n"
	dataName   = "data.tar"

	controlName = "control.tar"
)

// unpacked lists the types of extracted files.
var unpacked = []byte{tar.TypeReg, tar.TypeSymlink, tar.TypeLink}

// Limits of the unpacked size, against decompression bombs.
const (
	largest = 256 << 20 // bytes per file; the largest useful files have a few MiB
	most    = 4 << 30   // bytes per package; Debian's kernels and firmware have a few hundred MiB
)

// Package holds the metadata of a package and the names of the extracted files.
type Package struct {
	Name, Version, Architecture string

	Files []string
}

// Unpack extracts the wanted regular files and links of a package into a directory. Names are passed to `wanted`
// without a leading "./". No file is written outside the directory, but a link may point outside: readers must use
// os.Root or an equivalent.
func Unpack(p io.Reader, into *os.Root, wanted func(name string) bool) (*Package, error) {
	in := bufio.NewReader(p)
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(in, start); err != nil || string(start) != magic {
		return nil, errors.New("it is not a Debian package")
	}
	pkg := &Package{}
	for {
		header := make([]byte, headerSize)
		if _, err := io.ReadFull(in, header); err != nil {
			return nil, fmt.Errorf("it has no member %s: %w", dataName, err)
		}
		name := strings.TrimSuffix(strings.TrimSpace(string(header[:16])), "/")
		size, err := strconv.ParseInt(strings.TrimSpace(string(header[48:58])), 10, 64)
		if err != nil || size < 0 || string(header[58:]) != headerEnd {
			return nil, errors.New("it is damaged: a member has no header")
		}
		member := &io.LimitedReader{R: in, N: size}
		if compression, ok := strings.CutPrefix(name, dataName); ok {
			return pkg, eachFile(member, name, compression, func(header *tar.Header, name string, content io.Reader) error {
				return pkg.unpack(header, name, content, into, wanted)
			})
		}
		if compression, ok := strings.CutPrefix(name, controlName); ok {
			if err := eachFile(member, name, compression, pkg.readControl); err != nil {
				return nil, err
			}
		}
		if _, err := io.CopyN(io.Discard, in, member.N+size&1); err != nil {
			return nil, fmt.Errorf("it is damaged: %w", err)
		}
	}
}

// eachFile calls `do` for each file of a member. compression is the suffix of the member's name.
func eachFile(
	in io.Reader, member, compression string, do func(header *tar.Header, name string, content io.Reader) error,
) (err error) {
	switch compression {
	case "":
	case ".gz":
		in, err = gzip.NewReader(in)
	case ".xz":
		in, err = xz.NewReader(in)
	case ".zst":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(in, zstd.WithDecoderMaxMemory(largest)); err == nil {
			defer z.Close()
			in = z
		}
	default:
		return fmt.Errorf("the member %s has an unknown compression", member)
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", member, err)
	}
	files := tar.NewReader(&bounded{in, most})
	for {
		header, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", member, err)
		}
		name := clean(header.Name)
		if header.Size > largest {
			return fmt.Errorf("unpack %s: it has %d bytes, and the limit is %d", name, header.Size, largest)
		}
		if err := do(header, name, files); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
	}
}

// bounded limits a reader. In contrast to io.LimitedReader, it returns an error at the limit.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left <= 0 {
		return 0, errors.New("it exceeds the size limit")
	}
	return n, err
}

// readControl reads name, version and architecture from the file "control".
func (p *Package) readControl(_ *tar.Header, name string, content io.Reader) error {
	if name != "control" {
		return nil
	}
	for lines := bufio.NewScanner(io.LimitReader(content, 1<<20)); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimSpace(value); field {
		case "Package":
			p.Name = value
		case "Version":
			p.Version = value
		case "Architecture":
			p.Architecture = value
		}
	}
	return nil
}

// unpack extracts a file or link if it is wanted.
func (p *Package) unpack(
	header *tar.Header, name string, content io.Reader, into *os.Root, wanted func(string) bool,
) error {
	if !slices.Contains(unpacked, header.Typeflag) || !wanted(name) {
		return nil
	}
	p.Files = append(p.Files, name)
	if err := into.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		return into.Symlink(header.Linkname, name)
	case tar.TypeLink: // a hard link to an earlier file
		return into.Link(clean(header.Linkname), name)
	default:
		return write(into, name, content)
	}
}

// clean removes the leading "./" of a name.
func clean(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

func write(into *os.Root, name string, content io.Reader) error {
	file, err := into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
