package godtrace

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Unset is the value of an option that was never set.
const Unset int64 = -2

// An OptionError says why an option was not set. Its words are libdtrace's.
type OptionError struct {
	Name, Value string
	Msg         string
}

func (e *OptionError) Error() string { return e.Msg }

// Messages of libdtrace for options.
const (
	msgBadOptName = "Invalid option name"
	msgBadOptVal  = "Invalid value for specified option"
	msgBadOptCtx  = "Operation illegal when tracing is active"
)

// when says until when an option can be set.
type when uint8

const (
	compileTime when = iota // -x and #pragma D option, before compilation
	runTime                 // the same, until tracing starts
	anyTime                 // also by setopt() while tracing
)

// optionDef is one row of the table of options.
type optionDef struct {
	when  when
	parse func(value string) (int64, bool) // nil: a string option
	def   int64
}

// The options of dtrace(1). What only concerns the insides of other
// implementations is accepted and has no effect: scripts carry them along.
var optionDefs = map[string]optionDef{
	// Sizes of buffers.
	"bufsize":       {runTime, parseSize, 4 << 20},
	"bufpolicy":     {runTime, parseBufPolicy, 0},
	"bufresize":     {runTime, parseBufResize, 0},
	"aggsize":       {runTime, parseSize, 4 << 20},
	"dynvarsize":    {runTime, parseSize, 1 << 20},
	"specsize":      {runTime, parseSize, 4 << 20},
	"nspec":         {runTime, parseCount, 1},
	"strsize":       {runTime, parseSize, 256},
	"scratchsize":   {runTime, parseSize, 256},
	"stackframes":   {runTime, parseFrames, 20},
	"ustackframes":  {runTime, parseFrames, 100},
	"ustackmode":    {runTime, parseWord(ustackModes...), 0},
	"jstackframes":  {runTime, parseFrames, 50},
	"jstackstrsize": {runTime, parseSize, 512},
	"maxframes":     {runTime, parseFrames, 127},
	"cpu":           {runTime, parseCPU, Unset},
	"maxprobes":     {runTime, parseInt, Unset},
	"followfork":    {compileTime, parseFlag, Unset},
	"pidreturn":     {compileTime, parsePidReturn, 0},
	"statusrate":    {runTime, parseRate, 1e9},
	"cleanrate":     {runTime, parseRate, 1_000_000_000 / 101},
	"destructive":   {runTime, parseFlag, Unset},
	"grabanon":      {runTime, parseFlag, Unset},
	"lockmem":       {runTime, parseString, Unset},
	"noresolve":     {runTime, parseFlag, Unset},
	"bpflog":        {runTime, parseFlag, Unset},
	"bpflogsize":    {runTime, parseSize, Unset},
	"pcapsize":      {runTime, parseSize, 100},
	"temporal":      {runTime, parseFlag, 1},
	"stats":         {runTime, parseFlag, Unset},
	"fbt":           {runTime, parseWord(fbtEngines...), 0},
	"fbtreturn":     {runTime, parseWord(fbtReturns...), 0},
	"instr":         {runTime, parseFlag, Unset},
	"opcode":        {runTime, parseFlag, Unset},
	"latemod":       {runTime, parseFlag, Unset},

	// Rates and the look of the output.
	"switchrate":    {anyTime, parseRate, 1e9},
	"aggrate":       {anyTime, parseRate, 1e9},
	"aggsortkey":    {anyTime, parseFlag, Unset},
	"aggsortkeypos": {anyTime, parseInt, Unset},
	"aggsortpos":    {anyTime, parseInt, Unset},
	"aggsortrev":    {anyTime, parseFlag, Unset},
	"agghist":       {anyTime, parseFlag, Unset},
	"aggpack":       {anyTime, parseFlag, Unset},
	"aggzoom":       {anyTime, parseFlag, Unset},
	"flowindent":    {anyTime, parseFlag, Unset},
	"quiet":         {anyTime, parseFlag, Unset},
	"quietresize":   {anyTime, parseFlag, Unset},
	"rawbytes":      {anyTime, parseFlag, Unset},
	"stackindent":   {anyTime, parseInt, 14},
	"demangle":      {anyTime, parseFlag, 1},
	"printsize":     {anyTime, parseSize, 0},
	"errexit":       {anyTime, parseFlag, Unset},

	// The compiler and the handling of processes.
	"aggpercpu":    {compileTime, parseFlag, Unset},
	"amin":         {compileTime, parseString, Unset},
	"argref":       {compileTime, parseFlag, Unset},
	"core":         {compileTime, parseString, Unset},
	"cpp":          {compileTime, parseFlag, Unset},
	"cppargs":      {compileTime, parseString, Unset},
	"cpphdrs":      {compileTime, parseFlag, Unset},
	"cpppath":      {compileTime, parseString, Unset},
	"ctfpath":      {compileTime, parseString, Unset},
	"ctypes":       {compileTime, parseString, Unset},
	"debug":        {compileTime, parseFlag, Unset},
	"debugassert":  {compileTime, parseString, Unset},
	"defaultargs":  {compileTime, parseFlag, Unset},
	"define":       {compileTime, parseString, Unset},
	"disasm":       {compileTime, parseInt, Unset},
	"dofstashpath": {compileTime, parseString, Unset},
	"droptags":     {compileTime, parseFlag, Unset},
	"dtypes":       {compileTime, parseString, Unset},
	"empty":        {compileTime, parseFlag, Unset},
	"encoding":     {compileTime, parseEncoding, Unset},
	"errtags":      {compileTime, parseFlag, Unset},
	"evaltime":     {compileTime, parseEvalTime, evalMain},
	"incdir":       {compileTime, parseString, Unset},
	"iregs":        {compileTime, parseRegs, Unset},
	"kdefs":        {compileTime, parseFlag, Unset},
	"knodefs":      {compileTime, parseFlag, Unset},
	"late":         {compileTime, parseString, Unset},
	"lazyload":     {compileTime, parseFlag, Unset},
	"ldpath":       {compileTime, parseString, Unset},
	"libdir":       {compileTime, parseString, Unset},
	"linkmode":     {compileTime, parseLinkMode, linkKernel},
	"linknommap":   {compileTime, parseFlag, Unset},
	"linktype":     {compileTime, parseWord("elf", "dof"), Unset},
	"modpath":      {compileTime, parseString, Unset},
	"nolibs":       {compileTime, parseFlag, Unset},
	"objcopypath":  {compileTime, parseString, Unset},
	"oformat":      {compileTime, parseOformat, Unset},
	"pgmax":        {compileTime, parseInt, Unset},
	"preallocate":  {compileTime, parseSize, Unset},
	"procfspath":   {compileTime, parseString, Unset},
	"policyfile":   {compileTime, parseString, Unset},
	"pspec":        {compileTime, parseFlag, Unset},
	"setenv":       {compileTime, parseString, Unset},
	"stdc":         {compileTime, parseStdc, Unset},
	"strip":        {compileTime, parseFlag, Unset},
	"syslibdir":    {compileTime, parseString, Unset},
	"sysslice":     {compileTime, parseFlag, Unset},
	"tree":         {compileTime, parseInt, Unset},
	"tregs":        {compileTime, parseInt, Unset},
	"udefs":        {compileTime, parseFlag, Unset},
	"undef":        {compileTime, parseString, Unset},
	"unodefs":      {compileTime, parseFlag, Unset},
	"unsetenv":     {compileTime, parseString, Unset},
	"useruid":      {compileTime, parseInt, Unset},
	"verbose":      {compileTime, parseFlag, Unset},
	"version":      {compileTime, parseVersion, Unset},
	"zdefs":        {compileTime, parseFlag, Unset},
}

// How the provider fbt attaches probes, and finds returns.
var (
	fbtEngines = []string{"auto", "fentry", "multi", "kprobe"}
	fbtReturns = []string{"engine", "insn"}
)

// What symbols the option linkmode leaves unresolved: none of the kernel, none
// at all, all.
const (
	linkKernel = iota
	linkStatic
	linkDynamic
)

// options holds the values of a session.
type options struct {
	val map[string]int64
	str map[string][]string // string options; those that may be repeated keep all
}

func newOptions() options {
	return options{val: map[string]int64{}, str: map[string][]string{}}
}

// get is the value of an option or its default.
func (o *options) get(name string) int64 {
	if v, ok := o.val[name]; ok {
		return v
	}
	return optionDefs[name].def
}

func (o *options) flag(name string) bool { return o.get(name) > 0 }

// set sets an option at a stage of the session's life.
func (o *options) set(name, value string, stage when) error {
	def, ok := optionDefs[name]
	if !ok {
		return &OptionError{name, value, msgBadOptName}
	}
	if def.when < stage {
		return &OptionError{name, value, msgBadOptCtx}
	}
	v, ok := def.parse(value)
	if !ok {
		return &OptionError{name, value, msgBadOptVal}
	}
	if name == "iregs" && v < 8 {
		return &OptionError{name, value, "Insufficient registers to generate code"}
	}
	if name == "version" && v > dNewest {
		return &OptionError{name, value, "Operation not supported"}
	}
	if name == "kdefs" {
		o.val["knodefs"] = Unset // the last of the two counts
	}
	o.val[name] = v
	o.str[name] = append(o.str[name], value)
	return nil
}

// parseSize reads a number of bytes with an optional k, m, g or t.
func parseSize(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	shift := 0
	if i := strings.IndexByte("kmgt", s[len(s)-1]|0x20); i >= 0 {
		shift = 10 * (i + 1)
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, false
	}
	return n << shift, true
}

// parseRate reads a time or a frequency and returns ns. Without a unit it is a frequency.
func parseRate(s string) (int64, bool) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	n, err := strconv.ParseInt(s[:i], 10, 64)
	if err != nil {
		return 0, false
	}
	var unit int64
	switch strings.ToLower(s[i:]) {
	case "", "hz":
		if n == 0 {
			return math.MaxInt64, true
		}
		return 1e9 / n, true
	case "ns", "nsec":
		unit = 1
	case "us", "usec":
		unit = 1e3
	case "ms", "msec":
		unit = 1e6
	case "s", "sec":
		unit = 1e9
	case "m", "min":
		unit = 60e9
	case "h", "hour":
		unit = 3600e9
	case "d", "day":
		unit = 86400e9
	default:
		return 0, false
	}
	if n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

func parseInt(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 0, 64)
	return n, err == nil
}

// parseCount reads a number of things.
func parseCount(s string) (int64, bool) {
	n, ok := parseInt(s)
	return n, ok && n >= 0
}

// parseRegs reads how many of DIF's 8 registers to use.
func parseRegs(s string) (int64, bool) {
	n, ok := parseInt(s)
	return n, ok && n > 0 && n <= 8
}

// parseFrames reads the depth of a stack, up to what the kernel walks.
func parseFrames(s string) (int64, bool) {
	n, ok := parseInt(s)
	return n, ok && n >= 0 && n <= maxStack()
}

// maxFrames is option maxframes, by default the kernel's limit.
func (o *options) maxFrames() int {
	if n, ok := o.val["maxframes"]; ok {
		return int(n)
	}
	return int(maxStack())
}

// maxStack is the sysctl kernel.perf_event_max_stack.
var maxStack = sync.OnceValue(func() int64 {
	b, err := os.ReadFile("/proc/sys/kernel/perf_event_max_stack")
	if err != nil {
		return 127
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return 127
	}
	return n
})

// parseFlag reads a switch: nothing at all means on.
func parseFlag(s string) (int64, bool) {
	switch strings.ToLower(s) {
	case "", "1", "yes", "true", "enable", "enabled", "on", "set":
		return 1, true
	case "0", "no", "false", "disable", "disabled", "off", "unset":
		return Unset, true
	}
	n, err := strconv.ParseInt(s, 0, 64)
	return n, err == nil
}

func parseString(s string) (int64, bool) { return 1, s != "" }

func parseWord(words ...string) func(string) (int64, bool) {
	return func(s string) (int64, bool) {
		i := slices.Index(words, s)
		return int64(i), i >= 0
	}
}

var (
	parseBufPolicy = parseWord("switch", "fill", "ring")
	parseBufResize = parseWord("auto", "manual")
	parseEncoding  = parseWord("ascii", "utf8")
	parseEvalTime  = parseWord("exec", "preinit", "postinit", "main") // as evalExec …
	parsePidReturn = parseWord("sites", "address")
	parseLinkMode  = parseWord("kernel", "static", "dynamic") // as linkKernel …
	parseStdc      = parseWord("a", "c", "s", "t")
	parseOformat   = parseWord("text", "json", "ndjson", "xml", "html")
)

func parseCPU(s string) (int64, bool) {
	if s == "all" {
		return Unset, true
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return n, err == nil && n >= 0 && n < 1<<16
}

// parseVersion reads "1.N" or "1.N.M" into a comparable number.
func parseVersion(s string) (int64, bool) {
	var v int64
	parts := strings.Split(s, ".")
	if len(parts) > 3 {
		return 0, false
	}
	for i := range 3 {
		var n uint64
		if i < len(parts) {
			var err error
			if n, err = strconv.ParseUint(parts[i], 10, 12); err != nil {
				return 0, false
			}
		}
		v = v<<12 | int64(n)
	}
	return v, true
}

// setEnv takes options from the environment: DTRACE_OPT_name=value.
func (o *options) setEnv() error {
	for _, e := range os.Environ() {
		rest, ok := strings.CutPrefix(e, "DTRACE_OPT_")
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(rest, "=")
		if err := o.set(strings.ToLower(name), value, compileTime); err != nil {
			return fmt.Errorf("failed to set option %s from the environment: %w", name, err)
		}
	}
	return nil
}
