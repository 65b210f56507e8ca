package catalog

// Data says what an operation can do to data that exists: what volumes, databases, machines, containers and images hold. Every operation
// declares it. Nodes carry out nothing but what only reads without a payload that a person signed: see Signed.
type Data string

// The sorts, from harmless to destructive.
const (
	DataReads    Data = "reads"    // it changes neither data nor what holds it
	DataAdds     Data = "adds"     // it makes something beside what exists, or gives that more room
	DataUses     Data = "uses"     // it lets programs run with data, or changes or stops what holds data; they can lose it
	DataDestroys Data = "destroys" // deleting or overwriting data is its purpose
)

// Signed reports whether a node carries the operation out only with the verified payload of its run.
func (o *Operation) Signed() bool { return o.Data != DataReads }

// reads returns o as one that changes no data.
func (o Operation) reads() Operation { return o.data(DataReads, "") }

// adds returns o as one that changes no data that exists.
func (o Operation) adds() Operation { return o.data(DataAdds, "") }

// uses returns o as one with which data can get lost; when says how, in a sentence.
func (o Operation) uses(when string) Operation { return o.data(DataUses, when) }

// destroys returns o as one that deletes or overwrites data; what says which, in a sentence.
func (o Operation) destroys(what string) Operation { return o.data(DataDestroys, what) }

func (o Operation) data(d Data, risk string) Operation {
	o.Data, o.Risk, o.Destructive = d, risk, d == DataDestroys
	return o
}
