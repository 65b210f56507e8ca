package libraries

import (
	"regexp"
	"strings"

	"writ"
)

// lack is a library that there is not.
type lack struct{ library, by string }

// lackError says which libraries there are not, what needs them, and how they can be had.
func lackError(lacking []lack) error {
	var texts, packages, unknown []string
	seen := map[string]bool{}
	for _, l := range lacking {
		texts = append(texts, l.library+" for "+l.by)
		name := PackageOf(l.library)
		switch {
		case name == "":
			unknown = append(unknown, l.library)
		case !seen[name]:
			seen[name] = true
			packages = append(packages, name)
		}
	}
	var hints []string
	if len(packages) > 0 {
		hints = append(hints, "in the directory of --packages: apt-get download "+strings.Join(packages, " ")+". If apt has none of such a name, look for the same with t64 at its end")
	}
	if len(unknown) > 0 {
		hints = append(hints, "`apt-file search "+unknown[0]+"` names the package of a library: download it to the directory of --packages")
	}
	return writ.Errorf(writ.CodeNotFound, "the packages lack libraries: %s", strings.Join(texts, ", ")).WithHint("%s", strings.Join(hints, "; "))
}

// otherLoader refuses a program whose libraries are looked for in another way.
func otherLoader(program, interpreter string) error {
	return writ.Errorf(writ.CodeUsage, "%s has the loader %s, and an image has that of Debian only: %s", program, interpreter, loader).
		WithHint("take the program from a Debian package, or link it statically")
}

// elsewhere are the packages of libraries that Debian's policy would call otherwise.
var elsewhere = map[string]string{
	"ld-linux-x86-64.so.2": "libc6", "libc.so.6": "libc6", "libm.so.6": "libc6", "libmvec.so.1": "libc6", "libdl.so.2": "libc6", "libpthread.so.0": "libc6",
	"librt.so.1": "libc6", "libresolv.so.2": "libc6", "libutil.so.1": "libc6", "libanl.so.1": "libc6",
	"libz.so.1": "zlib1g", "libcrypto.so.3": "libssl3", "libe2p.so.2": "libext2fs2",
}

// versioned is the name of a library with the version of its interface.
var versioned = regexp.MustCompile(`^(lib[A-Za-z0-9+._-]+)\.so\.([0-9]+(?:\.[0-9]+)*)$`)

// PackageOf is what Debian calls the package of a library (its policy, chapter 8); "" if the name of the library does not say it.
func PackageOf(library string) string {
	if name := elsewhere[library]; name != "" {
		return name
	}
	match := versioned.FindStringSubmatch(library)
	if match == nil {
		return ""
	}
	name, version := strings.ReplaceAll(strings.ToLower(match[1]), "_", "-"), match[2]
	if last := name[len(name)-1]; last >= '0' && last <= '9' {
		name += "-"
	}
	return name + version
}
