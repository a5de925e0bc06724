package launch

// State is the outcome of one check of a machine.
type State string

// The outcomes of a check. They are part of the output of "srt doctor --json".
const (
	StateOK            State = "ok"
	StateWarning       State = "warning" // srt works, less well or less safely than it could
	StateFail          State = "fail"    // something that srt can use is not to be had
	StateNotApplicable State = "notApplicable"
)

// Check is one thing that was looked at on this machine.
type Check struct {
	// Name identifies the check and stays the same between versions; Title is
	// for people.
	Name  string `json:"name"`
	Title string `json:"title"`
	State State  `json:"state"`
	// Found is what there is, Cure what a person can do about a State that is
	// not "ok".
	Found string `json:"found"`
	Cure  string `json:"cure,omitzero"`
}

// Diagnosis says what this machine offers to srt.
type Diagnosis struct {
	System       string  `json:"system"`
	Architecture string  `json:"architecture"`
	Checks       []Check `json:"checks"`
	// Requested is the backend that the settings ask for, Backend the one that
	// confines commands here; empty when none can.
	Requested string `json:"requestedBackend"`
	Backend   string `json:"backend"`
	// CanRun says whether a sandbox was set up with the settings. If not, Cause
	// says why and Cure what a person can do about it.
	CanRun bool   `json:"canRun"`
	Cause  string `json:"cause,omitzero"`
	Cure   string `json:"cure,omitzero"`
	// Choices are the backends that the settings can name.
	Choices []Choice `json:"choices"`
	// Limits are what the backend cannot do here.
	Limits []string `json:"limits"`
	// Warnings are what the settings ask for in vain.
	Warnings []string `json:"warnings"`
}

// Choice is one value of linux.backend.
type Choice struct {
	Backend   string `json:"backend"`
	Available bool   `json:"available"`
	// Note says what is there, or what is missing.
	Note string `json:"note"`
}
