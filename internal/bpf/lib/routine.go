package lib

import (
	"math"

	"godtrace/internal/dif"
)

// Routines are the entries, by subroutine.
var Routines = map[dif.Subr]*Routine{
	dif.SStrlen:    {Func: "dt_strlen", Strings: 1},
	dif.SStrcmp:    {Func: "dt_strcmp", Strings: 2},
	dif.SStrjoin:   {Func: "dt_strjoin"},
	dif.SStrchr:    {Func: "dt_strchr", Strings: 1},
	dif.SStrrchr:   {Func: "dt_strrchr", Strings: 1},
	dif.SStrstr:    {Func: "dt_strstr", Strings: 2},
	dif.SStrtok:    {Func: "dt_strtok", Strings: 1, State: true},
	dif.SSubstr:    {Func: "dt_substr", Strings: 1, First: 2, Defaults: []int64{math.MaxInt64}},
	dif.SIndex:     {Func: "dt_index", Strings: 2, First: 2, Defaults: []int64{0}},
	dif.SRindex:    {Func: "dt_rindex", Strings: 2, First: 2, Defaults: []int64{math.MaxInt32}},
	dif.SBasename:  {Func: "dt_basename", Strings: 1},
	dif.SDirname:   {Func: "dt_dirname", Strings: 1},
	dif.SCleanpath: {Func: "dt_cleanpath", Strings: 1},
	dif.SLltostr:   {Func: "dt_lltostr", First: 1, Defaults: []int64{10}},
	dif.SStrtoll:   {Func: "dt_strtoll", Strings: 1, First: 1, Defaults: []int64{10}},
	dif.SToLower:   {Func: "dt_tolower"},
	dif.SToUpper:   {Func: "dt_toupper"},
	dif.SInetNtoa:  {Func: "dt_inet_ntoa"},
	dif.SInetNtoa6: {Func: "dt_inet_ntoa6"},
	dif.SInetNtop:  {Func: "dt_inet_ntop"},
	dif.SLinkNtop:  {Func: "dt_link_ntop"},
}
