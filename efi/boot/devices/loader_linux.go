package devices

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"writ/efi/modules"
)

// New returns the loader of the modules in dir for the devices of this machine. parameters holds options by the
// name of the module.
func New(dir string, parameters map[string]string) (*Loader, error) {
	index, err := modules.Open(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	return &Loader{
		index: index, devices: os.DirFS("/sys/devices"), tried: map[string]bool{},
		load: func(m *modules.Module) error { return load(filepath.Join(dir, m.Path), parameters[m.Name]) },
	}, nil
}

// Modprobe loads the modules that the kernel requests with "-q -- NAME…" and returns the exit code of the process.
func Modprobe(dir string, parameters map[string]string, args []string) int {
	l, err := New(dir, parameters)
	if err != nil {
		return 1
	}
	loaded := 0
	for _, name := range args {
		if !strings.HasPrefix(name, "-") {
			n, _ := l.closure(name) // the kernel checks the result itself
			loaded += n
		}
	}
	if loaded == 0 {
		return 1
	}
	return 0
}

// load loads a module file into the kernel. It is not an error if the module is already loaded.
func load(path, parameters string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.FinitModule(int(file.Fd()), parameters, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}
