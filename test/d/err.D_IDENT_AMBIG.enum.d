struct task_struct *t; int TASK_DEAD; BEGIN { trace(t->st == TASK_DEAD); }
