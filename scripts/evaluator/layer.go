package evaluator

// Layer is one of the walls around a child.
type Layer struct {
	Name    string `json:"name"`
	Detail  string `json:"detail,omitempty"`  // how strong it is, where that differs between kernels
	Missing string `json:"missing,omitempty"` // why it does not hold here; empty if it does
}

// The layers, in the order in which a child puts them up. Without the first three there is no child.
const (
	LayerLimits      = "resource limits"   // memory, CPU time, files, core dumps
	LayerDescriptors = "no descriptors"    // but the pipes to its parent
	LayerPrivileges  = "no new privileges" // and nobody without rights over its parent looks into its memory
	LayerLandlock    = "Landlock"          // no files, no TCP, no signals to others
	LayerSeccomp     = "seccomp"           // no system calls beyond those that evaluation needs
)

// Layers are what confines a child. They are nil where nothing does.
type Layers []Layer

// Held returns the names of the layers that hold, with their details.
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

// Missing returns the names of the layers that do not hold, with the reasons.
func (layers Layers) Missing() []string {
	var names []string
	for _, l := range layers {
		if l.Missing != "" {
			names = append(names, l.Name+": "+l.Missing)
		}
	}
	return names
}
