package libraries

import (
	"strings"

	"writ"
	"writ/internal/lazyregexp"
)

// lack is a missing library and the object that needs it.
type lack struct{ library, by string }

// lackError returns the error for missing libraries, with the packages that have them.
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
		hints = append(hints, "in the directory of --packages: apt-get download "+strings.Join(packages,
			" ")+". If apt does not find a package, append t64 to its name")
	}
	if len(unknown) > 0 {
		hints = append(hints,
			"`apt-file search "+unknown[0]+"` names the package of a library: download it to the directory of --packages")
	}
	return writ.Errorf(writ.CodeNotFound, "the packages lack libraries: %s", strings.Join(texts, ", ")).
		WithHint("%s", strings.Join(hints, "; "))
}

// otherLoader returns the error for a program with an unsupported loader, whose search paths would differ.
func otherLoader(program, interpreter string) error {
	return writ.Errorf(writ.CodeUsage, "%s has the loader %s, but an image only has Debian's: %s", program, interpreter,
		loader).
		WithHint("take the program from a Debian package, or link it statically")
}

// elsewhere maps libraries to packages whose names do not follow Debian's policy.
var elsewhere = map[string]string{
	"ld-linux-x86-64.so.2": "libc6", "libc.so.6": "libc6", "libm.so.6": "libc6", "libmvec.so.1": "libc6",
	"libdl.so.2": "libc6", "libpthread.so.0": "libc6",
	"librt.so.1": "libc6", "libresolv.so.2": "libc6", "libutil.so.1": "libc6", "libanl.so.1": "libc6",
	"libz.so.1": "zlib1g", "libcrypto.so.3": "libssl3", "libe2p.so.2": "libext2fs2",
}

// versioned matches the name of a library with its interface version.
var versioned = lazyregexp.New(`^(lib[A-Za-z0-9+._-]+)\.so\.([0-9]+(?:\.[0-9]+)*)$`)

// PackageOf returns the Debian package of a library, derived according to chapter 8 of Debian's policy. It returns ""
// if the package cannot be derived from the name.
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
