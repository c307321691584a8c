# bash completion for godtrace and dtrace. Probe names come from godtrace -l.

_godtrace_probes() {
	# Listing takes a moment: once for each provider and shell.
	local provider=${1%%:*}
	if [[ $1 != *:* ]]; then
		[[ -n $_godtrace_providers ]] ||
			_godtrace_providers=$(godtrace -l 2>/dev/null | awk 'NR > 1 && !s[$2]++ { print $2 ":" }')
		printf '%s' "$_godtrace_providers"
		return
	fi
	if [[ $_godtrace_provider != "$provider" ]]; then
		_godtrace_list=$(godtrace -l -P "$provider" 2>/dev/null | awk '
			NR > 1 { m = f = ""; n = $NF
				if (NF == 5) { m = $3; f = $4 } else if (NF == 4) f = $3
				print $2 ":" m ":" f ":" n
				print $2 "::" f ":" n }' | sort -u)
		_godtrace_provider=$provider
	fi
	printf '%s' "$_godtrace_list"
}

_godtrace() {
	local cur prev
	if declare -F _get_comp_words_by_ref >/dev/null; then
		_get_comp_words_by_ref -n : cur prev
	else
		cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
	fi
	COMPREPLY=()
	case $prev in
	-n)
		COMPREPLY=($(compgen -W "$(_godtrace_probes "$cur")" -- "$cur"))
		compopt -o nospace 2>/dev/null
		declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$cur"
		return ;;
	-P)
		COMPREPLY=($(compgen -W "$(_godtrace_probes '' | tr -d :)" -- "$cur"))
		return ;;
	-s|-o)
		COMPREPLY=($(compgen -f -- "$cur"))
		compopt -o filenames 2>/dev/null
		return ;;
	-I|-L)
		COMPREPLY=($(compgen -d -- "$cur"))
		return ;;
	-p)
		COMPREPLY=($(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur"))
		return ;;
	-c)
		COMPREPLY=($(compgen -c -- "$cur"))
		return ;;
	-X)
		COMPREPLY=($(compgen -W 'a c s t' -- "$cur"))
		return ;;
	-x)
		COMPREPLY=($(compgen -W 'aggpack aggrate= agghist aggsize= aggsortkey aggsortkeypos= aggsortpos=
			aggsortrev aggzoom bufpolicy=fill bufpolicy=ring bufpolicy=switch bufsize= cpu= debug
			defaultargs demangle=off destructive disasm= droptags dynvarsize= encoding=ascii encoding=utf8 errexit errtags evaltime= fbt=
			flowindent followfork instr latemod libdir= maxprobes= noresolve nspec= oformat=html oformat=json oformat=ndjson oformat=xml policyfile=
			printsize= quiet rawbytes setenv= specsize=
			stackframes= stackindent= stats statusrate= strsize= switchrate= unsetenv=
			ustackframes= ustackmode= version= zdefs' -- "$cur"))
		[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
		return ;;
	help|--help)
		COMPREPLY=($(compgen -W 'examples options providers language' -- "$cur"))
		return ;;
	esac
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W '-32 -64 -b -c -C -d -D -e -f -F -h -G -H -i -I -l -L -m -n -o -p -P -q -s
			-S -U -v -V -w -W -x -X -Z --help --version' -- "$cur"))
	elif [[ $COMP_CWORD == 1 && ${COMP_WORDS[0]##*/} == godtrace ]]; then
		COMPREPLY=($(compgen -W 'dtrace doctor help version' -- "$cur"))
	else
		COMPREPLY=($(compgen -f -- "$cur"))
		compopt -o filenames 2>/dev/null
	fi
}
complete -F _godtrace godtrace dtrace
