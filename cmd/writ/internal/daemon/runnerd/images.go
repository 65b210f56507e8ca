package runnerd

import (
	"net/netip"
	"path/filepath"
	"strings"

	"writ"
)

// checkImages rejects image directories that would expose other files to scripts, and invalid ranges. data is the
// node's data directory.
func (h HostConfig) checkImages(data string) error {
	for _, dir := range h.imageDirs() {
		if !filepath.IsAbs(dir) {
			return writ.Errorf(writ.CodeUsage, "--image-dir %s does not begin with /", dir).
				WithHint("name the directory by an absolute path, such as /srv/images")
		}
		if within(withoutLinks(data), withoutLinks(dir)) {
			return writ.Errorf(writ.CodeUsage, "--image-dir %s would open the node's own files in %s to scripts", dir,
				data).
				WithHint("name a directory that contains only images, like /srv/images")
		}
	}
	_, err := parseRanges("image-allow", h.ImageAllow)
	return err
}

// imageDirs returns the cleaned image directories.
func (h HostConfig) imageDirs() (all []string) {
	for _, dir := range h.ImageDirs {
		all = append(all, filepath.Clean(dir))
	}
	return all
}

// imageRanges returns the address ranges. checkImages has rejected invalid ones.
func (h HostConfig) imageRanges() []netip.Prefix {
	all, _ := parseRanges("image-allow", h.ImageAllow)
	return all
}

// parseRanges parses the address ranges of a flag.
func parseRanges(flag string, texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := parseRange(text)
		if err != nil {
			return nil, writ.Errorf(writ.CodeUsage, "--%s %s is not a range of addresses", flag, text).
				WithHint("write a range such as 10.1.0.0/16 or fd00:1::/64, or a single address")
		}
		all = append(all, p)
	}
	return all, nil
}

func parseRange(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		return netip.PrefixFrom(a, a.BitLen()), err
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

// withoutLinks resolves the symbolic links in the existing part of a path.
func withoutLinks(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(withoutLinks(parent), filepath.Base(path))
	}
	return path
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	name, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(name)
}
