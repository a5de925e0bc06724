// Package config reads and checks srt's settings: one JSON object with the keys
// of the TypeScript srt. Comments and trailing commas are allowed; duplicate
// keys, nulls and values of another type are not.
//
// Field tags say what is checked. In a "rule" tag: required (the key must be
// present), nonempty, min=N and max=N (numbers, or characters of a text),
// enum=A|B, strict (unknown keys are refused), and the name of a text format
// that check.go defines.
package config

// Config is a whole settings file. The zero value of every optional field means
// that the key is absent.
type Config struct {
	Network    Network    `json:"network" rule:"required"`
	Filesystem Filesystem `json:"filesystem" rule:"required"`
	// Credentials hides secrets from the command.
	Credentials *Credentials `json:"credentials,omitzero"`
	// IgnoreViolations maps a part of a command to parts of violation lines
	// that are not recorded for it; "*" is every command.
	IgnoreViolations map[string][]string `json:"ignoreViolations,omitzero"`
	// EnableWeakerNestedSandbox accepts weaker isolation inside containers that
	// cannot have the full one.
	EnableWeakerNestedSandbox bool `json:"enableWeakerNestedSandbox,omitzero"`
	// AllowNestedUserNamespaces lets the command create namespaces, which gives
	// up the write denies against a hostile command. Linux only.
	AllowNestedUserNamespaces bool `json:"allowNestedUserNamespaces,omitzero"`
	// EnableWeakerNetworkIsolation opens the trust daemon. macOS only.
	EnableWeakerNetworkIsolation bool `json:"enableWeakerNetworkIsolation,omitzero"`
	// AllowAppleEvents opens Apple Events. macOS only.
	AllowAppleEvents bool `json:"allowAppleEvents,omitzero"`
	// AllowPty allows pseudo-terminals. macOS only; elsewhere always allowed.
	AllowPty bool `json:"allowPty,omitzero"`
	// MandatoryDenySearchDepth is how many directories below a write root are
	// searched for protected names, and kept free of missing ones, 1 to 10; 0 means
	// the default of 3. Linux only.
	MandatoryDenySearchDepth int         `json:"mandatoryDenySearchDepth,omitzero" rule:"min=1,max=10"`
	Ripgrep                  *Ripgrep    `json:"ripgrep,omitzero"`
	Seccomp                  *Seccomp    `json:"seccomp,omitzero"`
	BwrapPath                string      `json:"bwrapPath,omitzero" rule:"nonempty,absolute"`
	SocatPath                string      `json:"socatPath,omitzero" rule:"nonempty,absolute"`
	JavaAgentJarPath         string      `json:"javaAgentJarPath,omitzero" rule:"nonempty,absolute"`
	Git                      *GitOptions `json:"git,omitzero"`
	// Limits bound what a command uses.
	Limits  *Limits  `json:"limits,omitzero"`
	Linux   *Linux   `json:"linux,omitzero"`
	Windows *Windows `json:"windows,omitzero"`
}

// Network says which hosts a command may reach. Nothing is reachable unless a
// rule allows it.
type Network struct {
	// AllowedDomains lists hosts: "example.com", "*.example.com" (any
	// subdomain), an address, each with an optional ":port".
	AllowedDomains []string `json:"allowedDomains" rule:"required,each=allowhost"`
	// DeniedDomains always wins over AllowedDomains; it may hold "*" and "*:port".
	DeniedDomains []string `json:"deniedDomains" rule:"required,each=denyhost"`
	// DeniedDomainReasons maps an entry of DeniedDomains to the text that is
	// shown when it decides.
	DeniedDomainReasons map[string]string `json:"deniedDomainReasons,omitzero" rule:"each=nonempty"`
	// StrictAllowlist denies what is not listed without asking anyone.
	StrictAllowlist bool `json:"strictAllowlist,omitzero"`
	// DeniedResolvedAddresses are ranges that an allowed name must not resolve to.
	DeniedResolvedAddresses []string `json:"deniedResolvedAddresses,omitzero" rule:"each=range"`
	// AllowUnixSockets are paths, directories and patterns of sockets of this machine.
	AllowUnixSockets []string `json:"allowUnixSockets,omitzero" rule:"each=nonempty"`
	// AllowAllUnixSockets lets the command use every Unix socket it can see.
	AllowAllUnixSockets bool `json:"allowAllUnixSockets,omitzero"`
	// Transparent lets programs that know no proxy connect directly, held to the
	// same rules; absent means true. Linux only.
	Transparent *bool `json:"transparent,omitzero"`
	// PublishPorts lead from ports of this machine to servers of the command.
	PublishPorts []Publish `json:"publishPorts,omitzero"`
	// AllowHostPorts are TCP ports of this machine's loopback that the command
	// may connect to, at the same address. DeniedDomains still wins.
	AllowHostPorts    []int    `json:"allowHostPorts,omitzero" rule:"each=port"`
	AllowLocalBinding bool     `json:"allowLocalBinding,omitzero"`
	AllowMachLookup   []string `json:"allowMachLookup,omitzero" rule:"each=machname"`
	// HTTPProxyPort and SOCKSProxyPort name proxies on the host's loopback that
	// replace srt's own and do all filtering themselves.
	HTTPProxyPort  int `json:"httpProxyPort,omitzero" rule:"min=1,max=65535"`
	SOCKSProxyPort int `json:"socksProxyPort,omitzero" rule:"min=1,max=65535"`
	// MITMProxy sends some hosts through a proxy on a Unix socket.
	MITMProxy *MITMProxy `json:"mitmProxy,omitzero"`
	// ParentProxy is the proxy that srt itself must use.
	ParentProxy             *ParentProxy  `json:"parentProxy,omitzero"`
	TLSTerminate            *TLSTerminate `json:"tlsTerminate,omitzero"`
	AllowPlaintextHeaderSet bool          `json:"allowPlaintextHeaderSet,omitzero"`
	StripResponseHeaders    []string      `json:"stripResponseHeaders,omitzero" rule:"each=nonempty"`
	RefuseOpaqueTunnels     bool          `json:"refuseOpaqueTunnels,omitzero"`
	RequireHostMatch        bool          `json:"requireHostMatch,omitzero"`
	AmbiguousRequestTarget  string        `json:"ambiguousRequestTarget,omitzero" rule:"enum=refuse|asSpelled|normalize"`
}

// MITMProxy is a proxy behind a Unix socket for the hosts that match.
type MITMProxy struct {
	SocketPath string   `json:"socketPath" rule:"required,nonempty"`
	Domains    []string `json:"domains" rule:"required,nonempty,each=host"`
}

// ParentProxy names upstream proxies. A nil field falls back to srt's own
// environment; NoProxy may be empty.
type ParentProxy struct {
	HTTP    *string `json:"http,omitzero" rule:"proxyurl"`
	HTTPS   *string `json:"https,omitzero" rule:"proxyurl"`
	NoProxy *string `json:"noProxy,omitzero"`
}

// TLSTerminate switches TLS termination on.
type TLSTerminate struct {
	CACertPath         string   `json:"caCertPath,omitzero" rule:"nonempty"`
	CAKeyPath          string   `json:"caKeyPath,omitzero" rule:"nonempty"`
	ExcludeDomains     []string `json:"excludeDomains,omitzero" rule:"each=host"`
	ExtraCACertPaths   []string `json:"extraCaCertPaths,omitzero" rule:"each=nonempty"`
	MaxTunnels         int      `json:"maxTunnels,omitzero" rule:"min=1,max=65536"`
	HandshakeTimeoutMs int      `json:"handshakeTimeoutMs,omitzero" rule:"min=100,max=600000"`
}

// Filesystem says what a command may read and write. Everything is readable
// unless denied; nothing is writable unless allowed.
type Filesystem struct {
	DenyRead   []PathEntry `json:"denyRead" rule:"required"`
	AllowRead  []PathEntry `json:"allowRead,omitzero"`
	AllowWrite []PathEntry `json:"allowWrite" rule:"required"`
	DenyWrite  []PathEntry `json:"denyWrite" rule:"required"`
	// AllowGitConfig lets the command change the configuration of repositories,
	// which can run programs. Hooks stay protected.
	AllowGitConfig bool `json:"allowGitConfig,omitzero"`
	// Disabled switches every file rule off.
	Disabled bool `json:"disabled,omitzero"`
	// AllowNewRepositoryHooks leaves alone what a repository that the command
	// made would run: executable hooks and configuration that names programs.
	AllowNewRepositoryHooks bool `json:"allowNewRepositoryHooks,omitzero"`
}

// Credentials lists secrets. Unknown keys are refused: ignoring one could widen
// where a secret goes.
type Credentials struct {
	Files                []CredentialFile `json:"files,omitzero"`
	EnvVars              []CredentialEnv  `json:"envVars,omitzero"`
	AllowPlaintextInject bool             `json:"allowPlaintextInject,omitzero"`
	AWSPairs             []AWSPair        `json:"awsPairs,omitzero"`
	SigV4                *SigV4           `json:"sigv4,omitzero"`
}

// CredentialFile is one file that holds a secret.
type CredentialFile struct {
	Path             string   `json:"path" rule:"required,nonempty"`
	Mode             string   `json:"mode" rule:"required,enum=deny|mask"`
	Extract          string   `json:"extract,omitzero" rule:"extract"`
	OnExtractNoMatch string   `json:"onExtractNoMatch,omitzero" rule:"enum=warn|deny|error"`
	Decode           string   `json:"decode,omitzero" rule:"enum=jwt"`
	MaskClaims       []string `json:"maskClaims,omitzero" rule:"nonempty,each=nonempty"`
	MaskDuplicates   bool     `json:"maskDuplicates,omitzero"`
	InjectHosts      []string `json:"injectHosts,omitzero" rule:"each=host"`
}

// CredentialEnv is one environment variable that holds a secret.
type CredentialEnv struct {
	Name             string   `json:"name" rule:"required,envname"`
	Mode             string   `json:"mode" rule:"required,enum=deny|mask"`
	Extract          string   `json:"extract,omitzero" rule:"extract"`
	OnExtractNoMatch string   `json:"onExtractNoMatch,omitzero" rule:"enum=warn|deny|error"`
	Decode           string   `json:"decode,omitzero" rule:"enum=jwt"`
	MaskClaims       []string `json:"maskClaims,omitzero" rule:"nonempty,each=nonempty"`
	InjectHosts      []string `json:"injectHosts,omitzero" rule:"each=host"`
}

// AWSPair names the variables of one set of AWS credentials.
type AWSPair struct {
	AccessKeyIDVar     string `json:"accessKeyIdVar" rule:"required,envname"`
	SecretAccessKeyVar string `json:"secretAccessKeyVar" rule:"required,envname"`
	SessionTokenVar    string `json:"sessionTokenVar,omitzero" rule:"envname"`
}

// SigV4 says what happens to AWS request forms that cannot be signed again.
type SigV4 struct {
	Streaming string `json:"streaming,omitzero" rule:"enum=deny|passthrough"`
	Presigned string `json:"presigned,omitzero" rule:"enum=deny|passthrough"`
	SigV4A    string `json:"sigv4a,omitzero" rule:"enum=deny|passthrough"`
}

// Ripgrep is accepted for files written for the TypeScript srt and not used.
type Ripgrep struct {
	Command string   `json:"command" rule:"required"`
	Args    []string `json:"args,omitzero"`
	Argv0   string   `json:"argv0,omitzero"`
}

// Seccomp is accepted for files written for the TypeScript srt and not used.
type Seccomp struct {
	ApplyPath string `json:"applyPath,omitzero"`
	Argv0     string `json:"argv0,omitzero"`
}

// GitOptions concern git inside the sandbox.
type GitOptions struct {
	// SafeDirectories are directories that git trusts although they belong to
	// another user.
	SafeDirectories []string `json:"safeDirectories,omitzero"`
}

// The values of Linux.Backend.
const (
	BackendAuto       = "auto"
	BackendNative     = "native"
	BackendBubblewrap = "bubblewrap"
	BackendLandlock   = "landlock"
)

// Linux holds the settings of the Linux launcher.
type Linux struct {
	// Backend is what confines commands: namespaces made by srt itself
	// ("native"), by bwrap ("bubblewrap"), or Landlock alone ("landlock"). "auto",
	// the default, is native; where that cannot be had nothing runs, unless
	// enableWeakerNestedSandbox accepts Landlock.
	Backend string `json:"backend,omitzero" rule:"enum=auto|native|bubblewrap|landlock"`
	// Guard "off" runs commands without the guard, which answers system calls for
	// what mounts cannot do. It saves time and loses protection; see docs/linux.md.
	// The default is "on".
	Guard string `json:"guard,omitzero" rule:"enum=on|off"`
}

// Unguarded reports whether the settings switch the guard off.
func (c *Config) Unguarded() bool { return c.Linux != nil && c.Linux.Guard == "off" }

// LinuxBackend returns Linux.Backend or its default.
func (c *Config) LinuxBackend() string {
	if c.Linux == nil || c.Linux.Backend == "" {
		return BackendAuto
	}
	return c.Linux.Backend
}

// Windows holds the settings of the Windows launcher.
type Windows struct {
	Backend         string  `json:"backend,omitzero" rule:"enum=mxc|srt-win"`
	SandboxUser     string  `json:"sandboxUser,omitzero" rule:"min=1,max=20"`
	SublayerGUID    string  `json:"sublayerGuid,omitzero" rule:"uuid"`
	WFPSublayerGUID string  `json:"wfpSublayerGuid,omitzero" rule:"uuid"`
	ProxyPortRange  []int   `json:"proxyPortRange,omitzero" rule:"portrange"`
	SRTWin          *SRTWin `json:"srtWin,omitzero"`
}

// SRTWin names the helper binary of the Windows launcher.
type SRTWin struct {
	Path string `json:"path,omitzero" rule:"nonempty"`
}

// isStrict reports the objects whose unknown keys are errors: a misspelled limit
// would be none.
func isStrict(name string) bool {
	return name == "Credentials" || name == "AWSPair" || name == "SigV4" || name == "Limits"
}

// Default returns the settings in force without a file: no network, no writes
// but the command's temporary directory, unrestricted reads.
func Default() *Config {
	return &Config{
		Network:    Network{AllowedDomains: []string{}, DeniedDomains: []string{}},
		Filesystem: Filesystem{DenyRead: []PathEntry{}, AllowWrite: []PathEntry{}, DenyWrite: []PathEntry{}},
	}
}

// defaultSearchDepth is how deep protected names are looked for.
const defaultSearchDepth = 3

// SearchDepth returns MandatoryDenySearchDepth or its default.
func (c *Config) SearchDepth() int {
	if c.MandatoryDenySearchDepth == 0 {
		return defaultSearchDepth
	}
	return c.MandatoryDenySearchDepth
}
