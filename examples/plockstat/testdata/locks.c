/* Four threads take one mutex 50 times each and hold it for 2 ms; main holds another all along. */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t cold = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void work(void)
{
	pthread_mutex_lock(&hot);
	usleep(2000);
	pthread_mutex_unlock(&hot);
}

static void *run(void *unused)
{
	for (int i = 0; i < 50; i++)
		work();
	return unused;
}

int main(void)
{
	pthread_t t[4];

	pthread_mutex_lock(&cold);
	for (int i = 0; i < 4; i++)
		pthread_create(t + i, 0, run, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], 0);
	pthread_mutex_unlock(&cold);
	return 0;
}
