// Package deb takes files out of Debian packages, without their scripts and without dpkg. It must not know which files are wanted, nor whether a
// package is genuine: apt verifies that when it downloads one.
package deb

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// The form of a package: an archive of ar(5), in which the member data.tar has the files.
const (
	magic      = "!<arch>\n"
	headerSize = 60
	headerEnd  = "`\n"
	dataName   = "data.tar"
)

// largest bounds a file of a package; the largest that are of use have some MiB.
const largest = 256 << 20

// Unpack writes those files of a package below a directory that are wanted, and returns how many there were. Only regular files are written. Names
// have no leading "./", and cannot lead out of the directory.
func Unpack(p io.Reader, into *os.Root, wanted func(name string) bool) (n int, err error) {
	in := bufio.NewReader(p)
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(in, start); err != nil || string(start) != magic {
		return 0, errors.New("it is no Debian package")
	}
	for {
		header := make([]byte, headerSize)
		if _, err := io.ReadFull(in, header); err != nil {
			return 0, fmt.Errorf("it has no member %s: %w", dataName, err)
		}
		name := strings.TrimSuffix(strings.TrimSpace(string(header[:16])), "/")
		size, err := strconv.ParseInt(strings.TrimSpace(string(header[48:58])), 10, 64)
		if err != nil || size < 0 || string(header[58:]) != headerEnd {
			return 0, errors.New("it is damaged: a member has no header")
		}
		if compression, ok := strings.CutPrefix(name, dataName); ok {
			return unpackData(io.LimitReader(in, size), compression, into, wanted)
		}
		if _, err := io.CopyN(io.Discard, in, size+size&1); err != nil {
			return 0, fmt.Errorf("it is damaged: %w", err)
		}
	}
}

// unpackData writes files of the member with the files, which is compressed as its name ends.
func unpackData(in io.Reader, compression string, into *os.Root, wanted func(string) bool) (n int, err error) {
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
		return 0, fmt.Errorf("its files are compressed as %s%s, which is not known", dataName, compression)
	}
	if err != nil {
		return 0, fmt.Errorf("unpack %s%s: %w", dataName, compression, err)
	}
	files := tar.NewReader(in)
	for {
		header, err := files.Next()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("unpack %s%s: %w", dataName, compression, err)
		}
		name := strings.TrimPrefix(path.Clean(header.Name), "/")
		if header.Typeflag != tar.TypeReg || !wanted(name) {
			continue
		}
		if header.Size > largest {
			return n, fmt.Errorf("unpack %s: it has %d bytes, more than the %d that are possible", name, header.Size, largest)
		}
		if err := write(into, name, files); err != nil {
			return n, fmt.Errorf("unpack %s: %w", name, err)
		}
		n++
	}
}

func write(into *os.Root, name string, content io.Reader) error {
	if err := into.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
