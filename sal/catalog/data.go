package catalog

// Data is the possible effect of an operation on existing data: the content of volumes, databases, machines, containers
// and images. Every operation declares it. Without a payload signed by a person, nodes only execute operations that
// read: see Signed.
type Data string

// The values, from harmless to destructive.
const (
	DataReads Data = "reads" // changes neither data nor the resources that hold it
	DataAdds  Data = "adds"  // creates new data beside existing data, or provides more space
	// Runs programs with data, or changes or stops resources that hold data; data can be lost.
	DataUses     Data = "uses"
	DataDestroys Data = "destroys" // its purpose is to delete or overwrite data
)

// Signed reports whether a node executes the operation only with the verified payload of its run.
func (o *Operation) Signed() bool { return o.Data != DataReads }

// reads returns o as an operation that changes no data.
func (o Operation) reads() Operation { return o.data(DataReads, "") }

// adds returns o as an operation that changes no existing data.
func (o Operation) adds() Operation { return o.data(DataAdds, "") }

// uses returns o as an operation that can lose data; when describes how, as a sentence.
func (o Operation) uses(when string) Operation { return o.data(DataUses, when) }

// destroys returns o as an operation that deletes or overwrites data; the sentence names the data.
func (o Operation) destroys(what string) Operation { return o.data(DataDestroys, what) }

func (o Operation) data(d Data, risk string) Operation {
	o.Data, o.Risk, o.Destructive = d, risk, d == DataDestroys
	return o
}
