package evaluator

// Layer is one layer of the confinement of a child.
type Layer struct {
	Name    string `json:"name"`
	Detail  string `json:"detail,omitempty"`  // strength of the layer, if it differs between kernels
	Missing string `json:"missing,omitempty"` // why the layer is missing on this host; empty if it is active
}

// The layers, in the order of their setup. The first three are mandatory.
const (
	LayerLimits      = "resource limits"   // memory, CPU time, files, core dumps
	LayerDescriptors = "no descriptors"    // except the pipes to its parent
	LayerPrivileges  = "no new privileges" // and only processes with rights over its parent can read its memory
	LayerLandlock    = "Landlock"          // no files, no TCP, no signals to other processes
	LayerSeccomp     = "seccomp"           // only the system calls that evaluation needs
)

// Layers are the layers of a child's confinement. They are nil without confinement.
type Layers []Layer

// Held returns the names of the active layers, with their details.
func (layers Layers) Held() []string {
	var names []string
	for _, l := range layers {
		switch {
		case l.Missing != "":
		case l.Detail != "":
			names = append(names, l.Name+" ("+l.Detail+")")
		default:
			names = append(names, l.Name)
		}
	}
	return names
}

// Missing returns the names of the missing layers, with the reasons.
func (layers Layers) Missing() []string {
	var names []string
	for _, l := range layers {
		if l.Missing != "" {
			names = append(names, l.Name+": "+l.Missing)
		}
	}
	return names
}
